"""What ordinary programs do around a model: saving, copying, moving, loading data, mixed precision, hooks, checkpointing."""
import copy
import io
import math

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

D = "tiny"


class Tied(nn.Module):
    """Embedding and output layer share one weight."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm, self.out = nn.Embedding(11, 8), nn.LayerNorm(8), nn.Linear(8, 11, bias=False)
        self.out.weight = self.embed.weight
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, ids):
        self.seen += 1
        return self.out(self.norm(self.embed(ids)))


def model_and_data(device, seed=3):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
    x, y = torch.randn(12, 6), torch.randint(4, (12,))
    return model.to(device), x.to(device), y.to(device)


def same(a, b, **tolerance):
    torch.testing.assert_close(a.cpu(), b.cpu(), **tolerance)


def on_both(program):
    """Runs program(device) on CPU and on the device; both return a list of tensors, which must agree."""
    for a, b in zip(program("cpu"), program(D), strict=True):
        assert b.device.type == D
        same(a, b)


# ---- saving and copying
def test_save_and_load():
    model, x, _ = model_and_data(D)
    file = io.BytesIO()
    torch.save({"state": model.state_dict(), "view": x[2:4], "base": x, "n": 3}, file)
    for where in (None, "cpu", D, torch.device(D, 0)):
        file.seek(0)
        loaded = torch.load(file, map_location=where)
        assert loaded["base"].device.type == ("cpu" if where == "cpu" else D)
        same(loaded["base"], x)
        assert loaded["view"].untyped_storage()._cdata == loaded["base"].untyped_storage()._cdata
        other = model_and_data(loaded["base"].device, seed=4)[0]
        other.load_state_dict(loaded["state"])
        same(other(loaded["base"]), model(x))


def test_cpu_checkpoint_loads_on_the_device():
    model, x, _ = model_and_data("cpu")
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other = model_and_data(D, seed=4)[0]
    other.load_state_dict(torch.load(file, map_location=D))
    same(other(x.to(D)), model(x))


def test_deepcopy():
    model = Tied().to(D)
    twin = copy.deepcopy(model)
    assert twin.out.weight is twin.embed.weight and twin.out.weight is not model.out.weight
    with torch.no_grad():
        twin.out.weight.zero_()
    assert model.embed.weight.abs().sum().item() > 0
    base = torch.arange(6.0, device=D)
    a, b = copy.deepcopy([base, base[1:3]])
    b.zero_()
    assert a.tolist() == [0, 0, 0, 3, 4, 5] and base.tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("make", (lambda d: torch.arange(4.0, device=d), lambda d: torch.ones(2, 3, dtype=torch.bool, device=d),
                                  lambda d: torch.tensor([1.5, float("nan"), -float("inf")], device=d),
                                  lambda d: torch.zeros(0, 2, device=d),
                                  lambda d: torch.tensor(7, device=d), lambda d: torch.arange(5000, device=d).view(50, 100),
                                  lambda d: torch.ones(2, device=d, requires_grad=True), lambda d: torch.ones(3, dtype=torch.bfloat16, device=d)))
def test_printing(make):
    want, got = repr(make("cpu")), repr(make(D))
    assert "device='tiny:0'" in got
    assert got.replace("device='tiny:0'", "").replace(" ", "").replace(",)", ")").replace(",,", ",") == want.replace(" ", "")
    f"{make(D).sum()}"


# ---- moving
def test_moving_keeps_parameters_and_ties():
    model = Tied()
    weight, ids = model.embed.weight, torch.tensor([1, 2, 3])
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    want = model(ids)
    for device in (D, "cpu", D):
        assert model.to(device) is model
        assert model.embed.weight is weight and model.out.weight is weight and weight.device.type == device
        assert len(list(model.parameters())) == 3
        same(model(ids.to(device)), want)
    F.cross_entropy(model(ids.to(D)), ids.to(D)).backward()
    before = weight.detach().clone()
    optimizer.step()
    assert (before - weight).abs().sum().item() > 0
    assert model.seen.item() == 5


def test_to_with_dtype_and_back():
    x = torch.randn(3, 4)
    y = x.to(D, torch.float64)
    assert y.dtype == torch.float64 and y.device == torch.device(D, 0)
    same(y.to("cpu", torch.float32), x)
    assert x.to(D).to(D).data_ptr() and y.to(D) is y and y.tiny() is y
    same(x.to(D, non_blocking=True).cpu(), x)
    assert torch.randn(2, 3, 4, 5, device=D).to(memory_format=torch.channels_last).is_contiguous(memory_format=torch.channels_last)


def test_data_assignment_across_devices():
    p = nn.Parameter(torch.ones(3))
    p.data = torch.full((3,), 2.0, device=D)
    assert p.device.type == D and p.tolist() == [2, 2, 2]


def test_default_device():
    with torch.device(D):
        layer, x = nn.Linear(2, 3), torch.ones(1, 2)
    assert layer.weight.device.type == x.device.type == D
    assert layer(x).shape == (1, 3)


@pytest.mark.parametrize("workers", (0, 2))
def test_data_loader(workers):
    data = torch.utils.data.TensorDataset(torch.arange(20.0).view(10, 2), torch.arange(10))
    loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=workers)
    model = nn.Linear(2, 1).to(D)
    rows = 0
    for x, y in loader:
        model(x.to(D)).sum().backward()
        rows += y.to(D).numel()
    assert rows == 10


# ---- training
def train(device, steps=6, context=None, accumulate=1, clip=None, optimizer=torch.optim.SGD, **options):
    model, x, y = model_and_data(device)
    opt = optimizer(model.parameters(), **({"lr": 0.1} | options))
    losses = []
    for _ in range(steps):
        opt.zero_grad()
        for part in range(accumulate):
            rows = slice(part * len(x) // accumulate, (part + 1) * len(x) // accumulate)
            loss = F.cross_entropy(model(x[rows]), y[rows]) / accumulate
            loss.backward()
        if clip:
            losses.append(nn.utils.clip_grad_norm_(model.parameters(), clip))
        opt.step()
        losses.append(loss.detach())
    return losses + [p.detach() for p in model.parameters()]


@pytest.mark.parametrize("options", ({}, {"accumulate": 3}, {"clip": 0.05}, {"optimizer": torch.optim.AdamW, "lr": 1e-2},
                                     {"optimizer": torch.optim.Adam, "fused": True}, {"momentum": 0.9, "nesterov": True}, {"foreach": False}))
def test_training(options):
    on_both(lambda device: train(device, **options))


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16))
def test_autocast(dtype):
    def program(device):
        model, x, y = model_and_data(device)
        with torch.autocast(torch.device(device).type, dtype=dtype):
            out = model(x)
            loss = F.cross_entropy(out, y)
        assert out.dtype == dtype and loss.dtype == torch.float32
        loss.backward()
        assert all(p.grad.dtype == torch.float32 for p in model.parameters())
        return [loss.detach(), *(p.grad for p in model.parameters())]
    for a, b in zip(program("cpu"), program(D)):
        same(a, b, rtol=3e-2, atol=3e-3)


def test_grad_scaler():
    def program(device):
        model, x, y = model_and_data(device)
        opt, scaler = torch.optim.SGD(model.parameters(), 0.1), torch.amp.GradScaler(device, init_scale=2.0 ** 16, growth_interval=2)
        for i in range(6):
            opt.zero_grad()
            loss = F.cross_entropy(model(x), y) * (float("inf") if i == 3 else 1.0)
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(opt)
            scaler.update()
        return scaler.get_scale(), [p.detach() for p in model.parameters()]
    (want_scale, want), (scale, got) = program("cpu"), program(D)
    assert scale == want_scale
    for a, b in zip(want, got):
        same(a, b)


@pytest.mark.parametrize("reentrant", (False, True))
def test_activation_checkpointing(reentrant):
    from torch.utils.checkpoint import checkpoint

    def program(device, checkpointed=True):
        torch.manual_seed(5)
        block = nn.Sequential(nn.Linear(6, 6), nn.GELU(), nn.Dropout(0.5), nn.Linear(6, 6)).to(device)
        x = torch.randn(4, 6).to(device).requires_grad_()
        torch.manual_seed(6)
        out = checkpoint(block, x, use_reentrant=reentrant) if checkpointed else block(x)
        out.sum().backward()
        return [out.detach(), x.grad, block[0].weight.grad]
    for a, b in zip(program(D), program(D, checkpointed=False)):
        same(a, b)


def test_hooks():
    def program(device):
        model, x, _ = model_and_data(device)
        seen = []
        model[0].register_forward_hook(lambda m, i, o: o * 2)
        model[2].register_forward_pre_hook(lambda m, i: (i[0] + 1,))
        model[0].weight.register_hook(lambda g: g * 3)
        model[2].register_full_backward_hook(lambda m, gi, go: seen.append(go[0].clone()))
        model[0].bias.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
        out = model(x)
        out.pow(2).sum().backward()
        return [out.detach(), model[0].weight.grad, *seen]
    on_both(program)


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x ** 3

    @staticmethod
    def backward(ctx, grad):
        x, = ctx.saved_tensors
        return 3 * x * x * grad


def test_custom_function():
    def program(device):
        x = torch.linspace(-2, 2, 9, device=device, requires_grad=True)
        y = Cube.apply(x)
        y.sum().backward()
        return [y.detach(), x.grad]
    on_both(program)


def test_double_backward():
    def program(device):
        x = torch.linspace(-1, 1, 7, device=device, requires_grad=True)
        first, = torch.autograd.grad((torch.tanh(x) * x).sum(), x, create_graph=True)
        second, = torch.autograd.grad(first.pow(2).sum(), x)
        return [first.detach(), second]
    on_both(program)


def test_gradient_penalty_trains():
    def program(device):
        model, x, _ = model_and_data(device)
        x.requires_grad_()
        grad, = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        (grad.norm(2, 1) - 1).pow(2).mean().backward()
        return [p.grad for p in model.parameters() if p.grad is not None]
    on_both(program)


def test_gradcheck_in_double():
    torch.manual_seed(0)
    x, w = torch.randn(3, 4, dtype=torch.float64).to(D).requires_grad_(), torch.randn(4, 2, dtype=torch.float64).to(D).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, w: torch.softmax(torch.tanh(x @ w), -1), (x, w))


def test_inference_mode():
    model, x, _ = model_and_data(D)
    with torch.inference_mode():
        y = model(x)
        y.add_(1)
        z = y[1:3]
        z.mul_(2)
    assert y.is_inference()
    same(y[1:3], z)
    with pytest.raises(RuntimeError):
        y.add_(1).requires_grad_()


def test_version_counter_guards_saved_tensors():
    x = torch.ones(3, device=D, requires_grad=True)
    y = x * 2
    z = y.pow(2)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_batch_norm_running_statistics():
    def program(device):
        torch.manual_seed(1)
        norm = nn.BatchNorm2d(3).to(device)
        for _ in range(3):
            norm(torch.randn(4, 3, 5, 5).to(device) * 2 + 1)
        out = norm.eval()(torch.randn(2, 3, 4, 4).to(device))
        assert norm.num_batches_tracked.item() == 3
        return [norm.running_mean, norm.running_var, out.detach()]
    on_both(program)


def test_random_numbers():
    def draw():
        torch.manual_seed(11)
        return [torch.rand(1000, device=D), torch.randn(1000, device=D), torch.randint(9, (1000,), device=D), torch.randperm(50, device=D),
                F.dropout(torch.ones(1000, device=D), 0.3), torch.empty(1000, device=D).exponential_(), torch.bernoulli(torch.full((1000,), 0.2, device=D))]
    first, second = draw(), draw()
    for a, b in zip(first, second):
        assert torch.equal(a, b)
    uniform, normal, integers, order, dropped, exponential, coins = (t.cpu().double() for t in first)
    assert 0 <= uniform.min() and uniform.max() < 1 and abs(uniform.mean() - 0.5) < 0.05
    assert abs(normal.mean()) < 0.15 and abs(normal.std() - 1) < 0.1
    assert integers.unique().numel() == 9
    assert sorted(order.tolist()) == list(range(50))
    assert abs((dropped == 0).double().mean() - 0.3) < 0.06 and math.isclose(dropped.max().item(), 1 / 0.7, rel_tol=1e-6)
    assert abs(exponential.mean() - 1) < 0.15
    assert abs(coins.mean() - 0.2) < 0.05
    state = torch.tiny.get_rng_state()
    a = torch.rand(5, device=D)
    torch.tiny.set_rng_state(state)
    assert torch.equal(a, torch.rand(5, device=D))
    generator = torch.Generator(device=D).manual_seed(2)
    assert not torch.equal(torch.rand(5, device=D, generator=generator), a)


def test_errors_are_pytorchs():
    x = torch.ones(2, 3, device=D)
    with pytest.raises(RuntimeError, match="must match"):
        x + torch.ones(4, device=D)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        x @ x
    with pytest.raises(IndexError):
        x[5]
    with pytest.raises((IndexError, RuntimeError)):
        x[torch.tensor([0, 7], device=D)].sum().item()
    with pytest.raises(RuntimeError):
        x + torch.ones(2, 3)
    assert (x + 1).sum().item() == 12  # the device goes on working after an error


def test_encoder_with_padding_at_inference():
    """The CPU packs the sequences; here the mask does it. What is padding may differ."""
    def program(d):
        torch.manual_seed(0)
        layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        encoder = torch.nn.TransformerEncoder(layer, 2).eval().to(d)
        padding = torch.tensor([[False] * 4 + [True], [False] * 3 + [True] * 2])
        with torch.no_grad():
            return encoder(torch.randn(2, 5, 8).to(d), src_key_padding_mask=padding.to(d)).cpu()[~padding]

    torch.testing.assert_close(program("tiny"), program("cpu"), rtol=1e-4, atol=1e-5)
