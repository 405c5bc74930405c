"""torch.compile(backend="tiny"): a call of a compiled function is one piece of the lazy graph, with the results of the plain call."""
import copy

import pytest
import torch
import torch.nn.functional as F

import torch_tiny
from torch_tiny import dynamo

D = "tiny"


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    before = torch_tiny.fallback_count()
    yield
    assert torch_tiny.fallback_count() == before


@pytest.fixture
def calls(monkeypatch):
    """How the compiled functions ran: "recorded" or "plain" for a run of its operators, nothing for a replay."""
    seen = []
    record, call = dynamo._Function.record, dynamo._Function.__call__

    def watched_record(self, *arguments):
        seen.append("recorded")
        return record(self, *arguments)

    def watched_call(self, arguments):
        if self.plain:
            seen.append("plain")
        return call(self, arguments)

    monkeypatch.setattr(dynamo._Function, "record", watched_record)
    monkeypatch.setattr(dynamo._Function, "__call__", watched_call)
    return seen


def compiled(f):
    return torch.compile(f, backend="tiny")


def check(f, *inputs, calls=3):
    """f on CPU, and compiled on the device, several times: results and what is left of the inputs are equal."""
    g = compiled(f)
    for _ in range(calls):
        host = [x.clone() for x in inputs]
        device = [x.to(D) for x in inputs]
        want, got = f(*host), g(*device)
        pairs = zip(want if isinstance(want, tuple) else (want,), got if isinstance(got, tuple) else (got,), strict=True)
        for a, b in [*pairs, *zip(host, device)]:
            assert b.device.type == D and a.stride() == b.stride()
            torch.testing.assert_close(b.cpu(), a)


@pytest.mark.parametrize("causal", [True, False])
def test_attention_and_its_gradients(causal):
    inputs = [torch.randn(2, 3, 40, 16) for _ in range(3)]

    def step(f, device):
        q, k, v = (x.to(device, copy=True).requires_grad_() for x in inputs)
        f(q, k, v).square().sum().backward()
        return [x.grad.cpu() for x in (q, k, v)]

    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    g = compiled(attend)
    for _ in range(3):
        torch.testing.assert_close(step(g, D), step(attend, "cpu"), rtol=1e-4, atol=1e-5)


def test_attention_of_sizes_that_change():
    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    g = torch.compile(attend, backend="tiny")
    for n in (24, 40, 56):
        inputs = [torch.randn(1, 2, n, 16) for _ in range(3)]
        torch.testing.assert_close(g(*(x.to(D) for x in inputs)).cpu(), attend(*inputs), rtol=1e-4, atol=1e-5)


def test_chain(calls):
    def f(x, y):
        z = x
        for _ in range(20):
            z = (z + y) * 0.5
        return z.sum(), z.t()

    check(f, torch.randn(4, 5), torch.randn(4, 5))
    assert calls == ["recorded"]


def test_no_operator_is_dispatched_on_a_replay():
    g = compiled(lambda x: (x.sin() + x.cos()).exp())
    x = torch.randn(8, device=D)
    g(x), g(x)
    with torch.autograd.profiler.profile() as seen:
        g(x)
    assert not {"aten::sin", "aten::cos", "aten::exp", "aten::add"} & {e.name for e in seen.function_events}


def test_result_is_lazy_and_fuses():
    g = compiled(lambda x: x * 2 + 1)
    x = torch.ones(100, device=D)
    g(x).sum().item(), g(x).sum().item()
    before = torch_tiny.stats()
    assert g(x).sum().item() == 300
    after = torch_tiny.stats()
    assert after["flushes"] - before["flushes"] == 1 and after["kernels_run"] - before["kernels_run"] == 1


def test_in_place_and_views():
    def f(x, y):
        x.add_(y)
        y[1:].mul_(3)
        return x[1:], x.view(-1), y * 2

    check(f, torch.randn(3, 4), torch.randn(3, 4))


def test_inputs_that_share_memory():
    def program(device, f):
        base = torch.arange(6.0).to(device)
        first = f(base[:4], base[2:])
        between = base.clone()
        return [x.cpu() for x in (first, between, f(base[:4], base[2:]), base)]

    plain = lambda x, y: x.mul_(2) + y  # noqa: E731
    for a, b in zip(program("cpu", plain), program(D, compiled(plain)), strict=True):
        assert torch.equal(a, b)


def test_training_with_dropout_and_batch_norm(calls):
    """Same numbers as without torch.compile, from the same seed; running statistics too."""
    def train(compile):
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.BatchNorm1d(16), torch.nn.Dropout(0.3), torch.nn.GELU(), torch.nn.Linear(16, 3)).to(D)
        run = compiled(model) if compile else model
        optimizer = torch.optim.Adam(model.parameters(), 1e-2)
        x, y = torch.randn(12, 6, device=D), torch.randint(3, (12,), device=D)
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = F.cross_entropy(run(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, model.state_dict()

    (want, state), (got, compiled_state) = train(False), train(True)
    assert got == pytest.approx(want, rel=1e-5)
    for name, t in state.items():
        torch.testing.assert_close(compiled_state[name], t)
    assert calls == ["recorded", "recorded"]  # forward and backward


def test_random_numbers_go_on():
    g = compiled(lambda x: torch.rand_like(x) + torch.rand(3, device=x.device).sum())
    x = torch.zeros(50, device=D)
    torch.manual_seed(7)
    a, b, after = g(x), g(x), torch.rand(4, device=D)
    torch.manual_seed(7)
    plain = [torch.rand_like(x) + torch.rand(3, device=D).sum() for _ in range(2)]
    assert torch.equal(a, plain[0]) and torch.equal(b, plain[1]) and not torch.equal(a, b)
    assert torch.equal(after, torch.rand(4, device=D))


def test_decoding():
    """A step that changes its own state: the cache is written at a position that moves."""
    def make(device):
        torch.manual_seed(3)
        cache, table = torch.zeros(10, 8), torch.randn(8, 12)
        weights = torch.randn(8, 8)
        state = {"position": torch.zeros(1, dtype=torch.int64).to(device), "token": torch.zeros(1, dtype=torch.int64).to(device)}
        cache, table, weights, places = cache.to(device), table.to(device), weights.to(device), torch.arange(10).to(device)

        def step():
            x = F.embedding(state["token"], table.t())
            cache.index_copy_(0, state["position"], x @ weights)
            seen = (cache * (places <= state["position"])[:, None]).sum(0)
            state["token"] = (seen @ table).argmax(-1, keepdim=True)
            state["position"] = (state["position"] + 1) % 10
            return state["token"]

        return step

    plain, device = make("cpu"), compiled(make(D))
    assert [device().item() for _ in range(15)] == [plain().item() for _ in range(15)]


def test_sizes_and_numbers_that_change(calls):
    def f(x, k):
        return x[:k] * k

    g = compiled(f)
    for n in range(3, 8):
        x = torch.arange(float(n))
        for k in (1, 2, 3):
            assert torch.equal(g(x.to(D), k).cpu(), f(x, k))


def test_what_needs_values_runs_plainly():
    def f(x):
        y = x[x > 0]
        return y.sum() + x.nonzero().numel()

    g = compiled(f)
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(20)
        torch.testing.assert_close(g(x.to(D)).cpu(), f(x))


def test_tensors_of_the_cpu(calls):
    def f(x, scale):
        return x * scale

    g = compiled(f)
    for k in range(3):
        scale = torch.tensor(float(k))
        assert torch.equal(g(torch.arange(4.0, device=D), scale).cpu(), torch.arange(4.0) * k)
    assert "plain" in calls


def test_an_index_out_of_bounds_is_told():
    g = compiled(lambda x, i: x[i])
    x, good, bad = torch.arange(4.0, device=D), torch.tensor([1, 2], device=D), torch.tensor([1, 9], device=D)
    assert g(x, good).tolist() == [1, 2]
    with pytest.raises(IndexError):
        g(x, bad).cpu()
    assert g(x, good).tolist() == [1, 2]


def test_memory_is_given_back():
    g = compiled(lambda x: (x * 2).relu() - 1)
    x = torch.randn(1 << 16, device=D)
    for _ in range(3):
        g(x).sum().item()
    before, nodes = torch.tiny.memory_allocated(), torch_tiny.live_nodes()
    for _ in range(50):
        g(x).sum().item()
    assert torch.tiny.memory_allocated() == before and torch_tiny.live_nodes() == nodes


def test_transformer_layer():
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
    twin = copy.deepcopy(layer).to(D)
    run = compiled(twin)
    x = torch.randn(2, 5, 16)
    for _ in range(3):
        want, got = layer(x), run(x.to(D))
        torch.testing.assert_close(got.cpu(), want, rtol=1e-5, atol=1e-5)
        for model, out in ((layer, want), (twin, got)):
            model.zero_grad()
            out.square().sum().backward()
    for a, b in zip(layer.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(b.grad.cpu(), a.grad, rtol=1e-4, atol=1e-4)
