"""Autocast and gradient scaling."""
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

D = "tiny"


def test_supported_types():
    assert torch.tiny.get_amp_supported_dtype() == [torch.bfloat16, torch.float16]
    assert torch.amp.is_autocast_available(D)
    with pytest.warns(UserWarning), torch.autocast(D, dtype=torch.float64):
        pass


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_policies(dtype):
    x, w = torch.randn(4, 8, device=D), torch.randn(8, 8, device=D)
    with torch.autocast(D, dtype=dtype):
        assert torch.is_autocast_enabled(D)
        assert (x @ w).dtype == dtype and F.linear(x, w).dtype == dtype
        assert torch.softmax((x @ w), -1).dtype == torch.float32 and (x @ w).exp().dtype == torch.float32
        assert (x + 1).dtype == torch.float32 and torch.cat([x, x @ w]).dtype == torch.float32
        assert F.layer_norm(x @ w, (8,)).dtype == torch.float32
        with torch.autocast(D, enabled=False):
            assert (x @ w).dtype == torch.float32
        with pytest.raises(RuntimeError, match="unsafe to autocast"):
            F.binary_cross_entropy(torch.sigmoid(x), torch.ones_like(x))
    assert (x @ w).dtype == torch.float32


def test_values_agree_with_the_cpu():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)), torch.randn(5, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected = model(x)
    with torch.autocast(D, dtype=torch.bfloat16):
        actual = model.to(D)(x.to(D))
    assert actual.dtype == expected.dtype == torch.bfloat16
    torch.testing.assert_close(actual.cpu().float(), expected.float(), rtol=2e-2, atol=2e-2)


def train(scaler, model, data, dtype, steps=5, poison=None):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for k in range(steps):
        optimizer.zero_grad()
        with torch.autocast(D, dtype=dtype):
            loss = F.cross_entropy(model(data[0]), data[1])
        scaled = scaler.scale(loss)
        (scaled * float("inf") if k == poison else scaled).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


def test_gradient_scaler():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).to(D)
    data = torch.randn(32, 8).to(D), torch.randint(4, (32,)).to(D)
    scaler = torch.amp.GradScaler(D, init_scale=256.0, growth_interval=2)
    losses = train(scaler, model, data, torch.float16)
    assert losses[-1] < losses[0] and scaler.get_scale() == 1024.0
    before = [p.detach().cpu().clone() for p in model.parameters()]
    train(scaler, model, data, torch.float16, steps=1, poison=0)
    assert scaler.get_scale() == 512.0
    assert all(torch.equal(a, b.detach().cpu())
               for a, b in zip(before, model.parameters(), strict=True)), "a step with infinities is skipped"


def test_custom_function():
    class Twice(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type=D, cast_inputs=torch.float32)
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @torch.amp.custom_bwd(device_type=D)
        def backward(ctx, g):
            return g * 2

    x = torch.ones(3, device=D, dtype=torch.bfloat16, requires_grad=True)
    with torch.autocast(D, dtype=torch.bfloat16):
        y = Twice.apply(x)
    assert y.dtype == torch.float32
    y.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


@pytest.mark.parametrize("self_type, source_type", [(torch.float32, torch.bfloat16), (torch.bfloat16, torch.float32)])
@pytest.mark.parametrize("write", ["index_add_", "index_copy_", "scatter_", "scatter_add_", "index_put_"])
def test_what_is_written_takes_the_type_of_its_place(write, self_type, source_type):
    """Rows of a mixture of experts, or of a graph, go back to where they belong, whatever autocast made of them."""
    base, rows, index = torch.randn(6, 4).to(self_type), torch.randn(3, 4).to(source_type), torch.tensor([4, 0, 3])

    def put(x, rows, index):
        x = x.clone()
        if write == "index_put_":
            x[index] = rows
        elif write.startswith("scatter"):
            getattr(x, write)(0, index[:, None].expand(3, 4), rows)
        else:
            getattr(x, write)(0, index, rows)
        return x

    leaf = rows.to(D).requires_grad_()
    with torch.autocast(D, dtype=torch.bfloat16):
        got = put(base.to(D), leaf, index.to(D))
    want = put(base, rows.to(self_type), index)
    assert got.dtype == self_type
    torch.testing.assert_close(got.detach().cpu(), want)
    got.float().sum().backward()
    assert leaf.grad.dtype == source_type and leaf.grad.cpu().eq(1).all()


def test_functional_writes_promote():
    base, rows, index = torch.randn(6, 4, device=D, dtype=torch.bfloat16), torch.randn(3, 4, device=D), torch.tensor([4, 0, 3], device=D)
    with torch.autocast(D, dtype=torch.bfloat16):
        for f in (torch.index_add, torch.index_copy):
            got = f(base, 0, index, rows)
            assert got.dtype == torch.float32
            torch.testing.assert_close(got.cpu(), f(base.float().cpu(), 0, index.cpu(), rows.cpu()))
    with torch.autocast(D, dtype=torch.float16):  # another half type than autocast's is nothing to refuse
        assert torch.index_add(base, 0, index, rows.bfloat16()).dtype == torch.bfloat16


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_lstm(dtype):
    torch.manual_seed(0)
    lstm, x = nn.LSTM(8, 16, num_layers=2), torch.randn(5, 3, 8)
    want = lstm(x)[0]
    on_device = nn.LSTM(8, 16, num_layers=2).to(D)
    on_device.load_state_dict(lstm.state_dict())
    with torch.autocast(D, dtype=dtype):
        out, (h, c) = on_device(x.to(D))
    assert out.dtype == h.dtype == c.dtype == dtype
    torch.testing.assert_close(out.float().cpu(), want, rtol=0.05, atol=0.02)
    out.float().sum().backward()
    assert all(p.grad.dtype == torch.float32 and p.grad.isfinite().all() for p in on_device.parameters())
