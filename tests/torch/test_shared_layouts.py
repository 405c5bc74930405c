"""An operand that many products of one flush read alike is laid out for them once, also where no product alone would make that worth it."""
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
