"""What several operators of one flush share: operands laid out once, also where no product alone would make that worth it; kernels."""
import torch


def test_a_weight_of_many_small_products_is_packed_once():
    torch.manual_seed(0)
    weight, inputs = torch.randn(256, 64), [torch.randn(8, 64) for _ in range(6)]
    w, xs = weight.to("tiny"), [x.to("tiny") for x in inputs]
    torch.tiny.synchronize()
    ys = [x @ w.t() for x in xs]
    torch.tiny.flush()
    kernels = torch.tiny.history()[-1].kernel_names
    assert len(kernels) == len(xs) + 1 and sum(k.startswith("e_") for k in kernels) == 1, kernels
    for x, y in zip(inputs, ys, strict=True):
        torch.testing.assert_close(y.cpu(), x @ weight.t())


def test_small_functions_of_one_value_share_a_kernel():
    torch.manual_seed(0)
    x = torch.randn(8, 256)
    y = x.to("tiny")
    torch.tiny.synchronize()

    def gates(x):
        i, f, c, o = x.chunk(4, 1)
        return o.sigmoid() * (f.sigmoid() + i.sigmoid() * c.tanh()).tanh()
    z = gates(y)
    torch.tiny.flush()
    kernels = torch.tiny.history()[-1].kernel_names
    assert len(kernels) == 1, kernels
    torch.testing.assert_close(z.cpu(), gates(x))
