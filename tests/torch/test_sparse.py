"""Sparse tensors of the device: COO natively, the rest of the operators and the compressed layouts through the CPU, counted."""
import copy
import io

import pytest
import torch
import torch.nn.functional as F
from nn_compare import D

pytestmark = pytest.mark.filterwarnings("ignore")


def same(a, b):
    """A tensor of the device, sparse or not, and one of the CPU."""
    assert a.device.type == D and a.layout == b.layout and a.shape == b.shape and a.dtype == b.dtype
    if a.layout == torch.sparse_coo:
        assert a.is_coalesced() == b.is_coalesced() and a._nnz() == b._nnz()
        assert a._indices().device.type == D and a._values().device.type == D
    torch.testing.assert_close(a.cpu(), b)


def matrix(*shape):
    torch.manual_seed(0)
    return torch.randn(shape) * (torch.rand(shape) > 0.5)


def both(function, *args):
    return function(*(a.to(D) if isinstance(a, torch.Tensor) else a for a in args)), function(*args)


def test_there_and_back(no_fallback):
    for x in (matrix(4, 5), matrix(3), matrix(2, 3, 4), (matrix(4, 5) * 10).long(), matrix(4, 5) > 0, matrix(4, 5).half(), torch.zeros(3, 4)):
        for sparse_dim in range(1, x.dim() + 1):
            there, here = both(lambda x, n: x.to_sparse(n), x, sparse_dim)
            same(there, here)
            same(there.to_dense(), x)
            same(here.to(D), here)
            same(here.to(D).to_dense(), x)


def test_made_of_parts(no_fallback):
    indices, values = torch.tensor([[0, 1, 0, 2], [2, 0, 2, 1]]), torch.randn(4, 3)
    there, here = both(lambda i, v: torch.sparse_coo_tensor(i, v, (3, 3, 3)), indices, values)
    same(there, here)
    same(there.coalesce(), here.coalesce())
    same(there.coalesce().indices(), here.coalesce().indices())
    same(there.coalesce().values(), here.coalesce().values())
    same(there.to_dense(), here.to_dense())
    same(torch.sparse_coo_tensor((2, 3), device=D), torch.sparse_coo_tensor((2, 3)))
    with pytest.raises(RuntimeError, match="Cannot get indices on an uncoalesced tensor"):
        there.indices()
    with pytest.raises(RuntimeError, match="size is inconsistent with indices|invalid"):
        torch.sparse_coo_tensor(indices.to(D), values.to(D), (1, 1, 3), check_invariants=True)


def test_arithmetic(no_fallback):
    x, y, m = matrix(4, 5), matrix(4, 5) * 3, torch.randn(5, 3)
    for function in (lambda x, y, m: x.to_sparse() + y.to_sparse(), lambda x, y, m: x + y.to_sparse(), lambda x, y, m: x.to_sparse() * 2.5,
                     lambda x, y, m: torch.add(x.to_sparse(), y.to_sparse(), alpha=-0.5), lambda x, y, m: torch.sparse.mm(x.to_sparse(), m),
                     lambda x, y, m: x.to_sparse() @ m, lambda x, y, m: torch.addmm(torch.ones_like(x[:, :3]), x.to_sparse(), m, alpha=2.0, beta=0.5),
                     lambda x, y, m: x.to_sparse().t(), lambda x, y, m: y.sparse_mask(x.to_sparse()), lambda x, y, m: x.clone().add_(y.to_sparse()),
                     lambda x, y, m: x.to_sparse().add_(y.to_sparse()).coalesce(), lambda x, y, m: x.to_sparse().mul_(3).coalesce(), lambda x, y, m: x.to_sparse().zero_()):
        same(*both(function, x, y, m))


def test_the_rest_runs_on_the_cpu_and_is_counted():
    import probe
    before = probe.fallbacks()
    x = matrix(4, 5)
    for function in (lambda x: torch.sparse.softmax(x.to_sparse(), 1), lambda x: x.to_sparse() @ x.to_sparse().t(), lambda x: torch.sparse.sum(x.to_sparse(), 0),
                     lambda x: x.to_sparse().neg(), lambda x: x.to_sparse_csr().to_dense(), lambda x: x.to_sparse_csr() @ x.t(), lambda x: x.to_sparse_csr().values(),
                     lambda x: torch.sparse.sampled_addmm(x.to_sparse_csr(), x, x.t() @ x)):
        same(*both(function, x))
    c = x.to_sparse_csr()
    assert c.to(D).layout == torch.sparse_csr and torch.equal(c.to(D).cpu().to_dense(), x)
    ran = {op for op, n in probe.fallbacks().items() if n > before.get(op, 0)}
    assert {"aten::_sparse_softmax", "aten::neg", "aten::sparse_sampled_addmm"} <= ran


def gradients(device, optimizer=None, steps=3):
    torch.manual_seed(0)
    weight, bag = (torch.randn(20, 4).to(device).requires_grad_() for _ in range(2))
    index, offsets = torch.randint(0, 20, (12,)).to(device), torch.tensor([0, 5, 9]).to(device)
    o = optimizer and optimizer([weight, bag])
    for _ in range(steps):
        weight.grad = bag.grad = None
        for _ in range(2):  # two sparse gradients are added up
            out = F.embedding(index, weight, sparse=True).sin().sum() + F.embedding_bag(index, bag, offsets, sparse=True, mode="mean").sin().sum()
            out.backward()
        if o:
            o.step()
    return weight, bag


def test_sparse_gradients():
    for a, b in zip(gradients(D, steps=1), gradients("cpu", steps=1), strict=True):
        assert a.grad.layout == torch.sparse_coo
        same(a.grad.coalesce(), b.grad.coalesce())


@pytest.mark.parametrize("optimizer", [lambda p: torch.optim.SparseAdam(p, lr=0.1), lambda p: torch.optim.SGD(p, lr=0.1), lambda p: torch.optim.Adagrad(p, lr=0.1)])
def test_optimizers_take_sparse_gradients(optimizer, no_fallback):
    for a, b in zip(gradients(D, optimizer), gradients("cpu", optimizer), strict=True):
        same(a.detach(), b.detach())


def test_gradients_of_and_through_sparse_tensors():
    def run(device):
        x, m = (t.to(device).requires_grad_() for t in (matrix(4, 5), torch.ones(5, 3)))
        s = matrix(4, 5).to_sparse().to(device).requires_grad_()
        (torch.sparse.mm(s, m).sin().sum() + torch.sparse.mm(x.to_sparse(), m).cos().sum()).backward()
        return x.grad, m.grad, s.grad
    for a, b in zip(run(D), run("cpu"), strict=True):
        same(a, b)


def test_copies_and_files():
    s = matrix(4, 5).to_sparse()
    same(copy.deepcopy(s.to(D)), s)
    file = io.BytesIO()
    torch.save(s.to(D), file)
    file.seek(0)
    same(torch.load(file, weights_only=True), s)


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
def test_reducing_products_of_compressed_rows(reduce):
    """They run on the CPU. The gradients of amax and amin need what only a product that asks for gradients keeps."""
    dense, b = torch.randn(5, 7) * (torch.rand(5, 7) > 0.5), torch.randn(7, 3)
    for wanted in ((True, False), (False, True), (True, True)):
        results = []
        for d in ("cpu", D):
            operands = dense.to_sparse_csr().to(d).requires_grad_(wanted[0]), b.to(d).requires_grad_(wanted[1])
            y = torch.sparse.mm(*operands, reduce)
            assert y.device.type == d
            grads = torch.autograd.grad((y * y).sum(), [t for t in operands if t.requires_grad])
            results.append([y, *(g.to_dense() for g in grads)])
        for want, got in zip(*results, strict=True):
            torch.testing.assert_close(got.cpu(), want)
    with torch.no_grad():
        torch.testing.assert_close(torch.sparse.mm(dense.to_sparse_csr().to(D), b.to(D), reduce).cpu(), torch.sparse.mm(dense.to_sparse_csr(), b, reduce))
