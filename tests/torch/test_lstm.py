"""nn.LSTM, whose layers are one operator each: values, strides and gradients as on the CPU, and what goes step by step instead."""
import copy
import math

import pytest
import torch
import torch.nn as nn

pytestmark = pytest.mark.usefixtures("no_fallback")
KINDS = [dict(), dict(num_layers=2, bidirectional=True, batch_first=True), dict(num_layers=2, bias=False, batch_first=True),
         dict(bidirectional=True), dict(num_layers=2, proj_size=3)]


def both(dtype=torch.float32, **kind):
    here = nn.LSTM(6, 5, **kind).to(dtype)
    there = nn.LSTM(6, 5, **kind).to(dtype)
    there.load_state_dict(here.state_dict())
    return here, there.to("tiny")


def on(device, *tensors):
    return [t.detach().to(device).requires_grad_() for t in tensors]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_layers(kind, dtype):
    torch.manual_seed(1)
    here, there = both(dtype, **kind)
    x = torch.randn(4, 7, 6).to(dtype)
    states, rows = here.num_layers * (2 if here.bidirectional else 1), 4 if here.batch_first else 7
    inputs = [x, torch.randn(states, rows, here.proj_size or 5).to(dtype), torch.randn(states, rows, 5).to(dtype)]
    a, b = on("cpu", *inputs), on("tiny", *inputs)
    want, have = here(a[0], tuple(a[1:])), there(b[0], tuple(b[1:]))
    near = dict(rtol=3e-2, atol=3e-2) if dtype == torch.bfloat16 else {}
    for y, z in zip((want[0], *want[1]), (have[0], *have[1]), strict=True):
        torch.testing.assert_close(z.cpu(), y, **near)
        assert z.stride() == y.stride()
    for y, h, c in ((want[0], *want[1]), (have[0], *have[1])):
        (y.square().sum() + h.sum() + (c * c).sum()).backward()
    for p, q in zip(b + list(there.parameters()), a + list(here.parameters()), strict=True):
        torch.testing.assert_close(p.grad.cpu(), q.grad, **near)


@pytest.mark.parametrize("used", [(0,), (1,), (2,), (1, 2)], ids=str)
def test_gradients_of_some_results(used):
    here, there = both()
    x = torch.randn(4, 7, 6)
    for net, y in ((here, x), (there, x.to("tiny"))):
        out, (h, c) = net(y)
        sum((out, h, c)[i].square().sum() for i in used).backward()
    for p, q in zip(there.parameters(), here.parameters(), strict=True):
        torch.testing.assert_close(p.grad.cpu(), q.grad)


def test_a_gradient_of_gradients():
    here, there = both(torch.float64)
    x = torch.randn(3, 2, 6, dtype=torch.float64)
    results = []
    for net, device in ((here, "cpu"), (there, "tiny")):
        (y,) = on(device, x)
        (g,) = torch.autograd.grad(net(y)[0].square().sum(), y, create_graph=True)
        g.square().sum().backward()
        results.append([y.grad.cpu(), *(p.grad.cpu() for p in net.parameters())])
    for p, q in zip(*results, strict=True):
        torch.testing.assert_close(q, p)


def test_dropout_between_layers():
    net = nn.LSTM(6, 64, 2, dropout=0.5).to("tiny")
    x = torch.randn(5, 3, 6, device="tiny")
    assert not torch.equal(net(x)[0].cpu(), net(x)[0].cpu())
    net.eval()
    torch.testing.assert_close(net(x)[0].cpu(), net.cpu()(x.cpu())[0])


def test_wrong_arguments():
    here, there = both()
    for x, h in ((torch.randn(4, 7, 5), None), (torch.randn(4, 7, 6), torch.randn(1, 6, 5)), (torch.randn(4, 7, 6).double(), None)):
        said = []
        for net, device in ((here, "cpu"), (there, "tiny")):
            with pytest.raises((RuntimeError, ValueError)) as error:
                net(x.to(device), None if h is None else (h.to(device), h.to(device)))
            said.append(error.type)
        assert said[0] == said[1]


def test_a_layer_is_one_operator():
    net = nn.LSTM(6, 5, 2).to("tiny")
    x = torch.randn(30, 3, 6, device="tiny")
    with torch.profiler.profile() as profile:
        net(x)
    count = {e.key: e.count for e in profile.key_averages()}
    assert count["aten::mkldnn_rnn_layer"] == 2 and "aten::addmm" not in count and "aten::_thnn_fused_lstm_cell" not in count


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gates_that_are_shut_or_open_for_good(dtype):
    """sigmoid is exactly 0 and 1 far out: a cell that is infinite stays so, or is no number, as on the CPU."""
    layer = torch.nn.LSTM(3, 4, batch_first=True).to(dtype)
    with torch.no_grad():
        for w in layer.parameters():
            w.mul_(300)
        layer.bias_hh_l0[4:6] = -5000  # forget gates
    x = torch.randn(5, 2, 3, dtype=dtype)
    state = torch.zeros(1, 5, 4, dtype=dtype), torch.tensor([math.inf, -math.inf, 1e30, 0.0], dtype=dtype).expand(1, 5, 4).contiguous()
    with torch.no_grad():
        want, got = layer(x, state), copy.deepcopy(layer).to("tiny")(x.to("tiny"), tuple(s.to("tiny") for s in state))
    for a, b in zip((want[0], *want[1]), (got[0], *got[1])):
        torch.testing.assert_close(b.cpu(), a, equal_nan=True, rtol=1e-4, atol=1e-5)
    assert want[1][1].isnan().any()
