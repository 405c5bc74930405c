"""linear, rms_norm and attention over few rows are one operator without gradients; cat, arange and index_copy_ take a short way. Values and
errors as on the CPU, and the composite forms where somebody needs them."""
import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

pytestmark = pytest.mark.usefixtures("no_fallback")
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
near = {torch.bfloat16: dict(rtol=1.6e-2, atol=1e-2), torch.float16: dict(rtol=2e-3, atol=2e-3)}


def check(f, *tensors, dtype=torch.float32):
    want, have = f(*tensors), f(*(t.to("tiny") for t in tensors))
    torch.testing.assert_close(have.cpu(), want, **near.get(dtype, {}))
    assert have.stride() == want.stride() and have.dtype == want.dtype


def counted(f, *tensors):
    with torch.profiler.profile() as profile:
        f(*tensors)
    return {e.key.removeprefix("aten::"): e.count for e in profile.key_averages()}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("bias", [False, True])
@torch.no_grad()
def test_linear(dtype, bias):
    torch.manual_seed(0)
    w, b = torch.randn(5, 7).to(dtype), torch.randn(5).to(dtype)
    for sizes in ((7,), (3, 7), (2, 3, 7), (1, 1, 7), (2, 1, 3, 7), (0, 7)):
        x = torch.randn(sizes).to(dtype)
        check(lambda x, w, b: F.linear(x, w, b if bias else None), x, w, b, dtype=dtype)
    check(lambda x, w, b: F.linear(x.transpose(0, 1), w, b if bias else None), torch.randn(4, 3, 7).to(dtype), w, b, dtype=dtype)
    check(lambda x, w: F.linear(x, w.t()), torch.randn(3, 7).to(dtype), torch.randn(7, 5).to(dtype), dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@torch.no_grad()
def test_rms_norm(dtype):
    torch.manual_seed(0)
    x, w = torch.randn(3, 4, 6).to(dtype), torch.randn(6).to(dtype)
    check(lambda x, w: F.rms_norm(x, (6,), w), x, w, dtype=dtype)
    check(lambda x: F.rms_norm(x, (4, 6), eps=0.3), x, dtype=dtype)
    check(lambda x: F.rms_norm(x, (6,)), (x.float() * 1e-3).to(dtype), dtype=dtype)  # where the default eps decides
    check(lambda x, w: F.rms_norm(x.transpose(0, 1), (6,), w), x, w, dtype=dtype)
    check(lambda x, w: F.rms_norm(x.float(), (6,), w), x, w)  # a weight of another type


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@torch.no_grad()
def test_attention_of_few_rows(dtype):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, n, 8).to(dtype) for n in (1, 20, 20))
    attend = F.scaled_dot_product_attention
    check(attend, q, k, v, dtype=dtype)
    check(lambda q, k, v: attend(q, k, v, scale=0.7), q[0], k[0], v[0], dtype=dtype)
    seen = torch.rand(2, 1, 1, 20) < 0.5
    seen[1] = False
    for mask in (seen, seen[0, 0], torch.randn(1, 20).to(dtype), torch.randn(1, 3, 1, 20).to(dtype)):
        check(lambda q, k, v, m: attend(q, k, v, attn_mask=m), q, k, v, mask, dtype=dtype)
    turned = [t.transpose(1, 2) for t in (q, k, v)]
    check(lambda *t: attend(*(x.transpose(1, 2) for x in t)), *turned, dtype=dtype)


@torch.no_grad()
def test_each_is_one_operator():
    x, w, q, k = (torch.randn(*s, device="tiny") for s in ((3, 8), (8, 8), (1, 2, 1, 4), (1, 2, 9, 4)))
    mask = torch.ones(1, 9, dtype=torch.bool, device="tiny")
    for f, name, args in ((F.linear, "linear", (x, w)), (lambda x, w: F.rms_norm(x, (8,), w[0].clone()), "rms_norm", (x, w)),
                          (lambda *a: F.scaled_dot_product_attention(*a[:3], attn_mask=a[3]), "scaled_dot_product_attention",
                           (q, k, k, mask))):
        count = counted(f, *args)
        assert count[name] == 1
        assert not {"mm", "bmm", "matmul", "_softmax", "pow", "rsqrt", "mean"} & set(count), (name, count)


@torch.no_grad()
def test_a_mode_sees_what_they_are_made_of():
    seen = set()

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.add(func.overloadpacket.__name__)
            return func(*args, **(kwargs or {}))
    x, w = torch.randn(3, 8, device="tiny"), torch.randn(8, 8, device="tiny")
    with Watch():
        F.linear(x, w)
    assert "mm" in seen


def test_gradients_and_transformations():
    torch.manual_seed(0)
    x, w, b = torch.randn(3, 6), torch.randn(5, 6), torch.randn(5)
    results = []
    for device in ("cpu", "tiny"):
        a, c, d = (t.detach().to(device, copy=True).requires_grad_() for t in (x, w, b))
        y = F.rms_norm(F.linear(a, c, d), (5,)).square().sum()
        y = y + F.scaled_dot_product_attention(a[None], a[None], a[None]).sum()
        y.backward()
        with torch.no_grad():
            mapped = torch.func.vmap(F.linear, (0, None))(a, c)
            tangent = torch.func.jvp(lambda t: F.rms_norm(F.linear(t, c), (5,)), (a.detach(),), (torch.ones_like(a),))[1]
        results.append([t.detach().cpu() for t in (a.grad, c.grad, d.grad, mapped, tangent)])
    for want, have in zip(*results, strict=True):
        torch.testing.assert_close(have, want)


@torch.no_grad()
def test_wrong_arguments():
    x, w = torch.randn(3, 8), torch.randn(5, 7)
    for f in (F.linear, lambda x, w: F.linear(x, w[0, :1]), lambda x, w: F.rms_norm(x, (7,)), lambda x, w: F.linear(x.long(), w),
              lambda x, w: F.linear(x[:, :7], w, torch.ones(4, device=x.device)),
              lambda x, w: F.scaled_dot_product_attention(x[None], w[None], w[None]),
              lambda x, w: torch.cat((x, w)), lambda x, w: torch.cat((x, w), 2), lambda x, w: torch.cat(()),
              lambda x, w: torch.arange(-1, device=x.device),
              lambda x, w: x.index_copy_(0, torch.tensor([0, 1], device=x.device), w[:2]),
              lambda x, w: x.index_copy_(0, torch.tensor([0], device=x.device), x[:1]),
              lambda x, w: x.index_copy_(1, torch.tensor([0.5], device=x.device), torch.ones(3, 1, device=x.device)),
              lambda x, w: x.index_copy_(0, torch.tensor([9], device=x.device), torch.ones(1, 8, device=x.device))):
        said = []
        for device in ("cpu", "tiny"):
            try:
                r = f(x.to(device, copy=True), w.to(device, copy=True))
                said.append((None, r.cpu() if r is not None else None))
            except Exception as e:
                said.append((type(e), None))
        assert said[0][0] == said[1][0], said
        if said[0][0] is None:
            torch.testing.assert_close(said[1][1], said[0][1])


@torch.no_grad()
def test_short_ways():
    x = torch.randn(2, 3, 4)
    check(lambda x: torch.cat((x, x + 1), -1), x)
    check(lambda x: torch.cat((x.transpose(1, 2), x.transpose(1, 2)), 0), x)
    check(lambda x: torch.cat((x.long(), x)), x)
    check(lambda x: torch.cat((x[None].to(memory_format=torch.channels_last),) * 2, 1), x)
    check(lambda x: torch.cat((x[0, 0, :0], x[0, 0])), x)
    for made in (lambda d: torch.arange(5, device=d), lambda d: torch.arange(5, dtype=torch.float16, device=d),
                 lambda d: torch.arange(2.5, device=d), lambda d: torch.arange(0, device=d), lambda d: torch.arange(True, device=d)):
        torch.testing.assert_close(made("tiny").cpu(), made("cpu"))
    index, source = torch.tensor([2, 0]), torch.randn(2, 2, 4)
    check(lambda x, i, s: x.clone().index_copy_(1, i, s), x, index, source)
    check(lambda x, i, s: x.clone().index_copy_(-2, i, s), x, index, source)
    check(lambda x, i, s: x.transpose(0, 1).contiguous().index_copy_(0, i, s.transpose(0, 1)), x, index, source)
    check(lambda x, i, s: x.clone().transpose(0, 1).index_copy_(0, i, s.transpose(0, 1)), x, index, source)
