"""Operators over hundreds of tensors: more than one kernel may read or write."""
import pytest
import torch

D = "tiny"
MANY = 300


@pytest.fixture
def tensors():
    torch.manual_seed(0)
    return [torch.randn(4, 5) for _ in range(MANY)]


def same(program, tensors, tolerance=1e-5):
    """program gives a tensor or a list of them; the device's against the CPU's."""
    theirs, ours = program(tensors), program([t.to(D) for t in tensors])
    if isinstance(theirs, torch.Tensor):
        theirs, ours = [theirs], [ours]
    torch.tiny.synchronize()  # one graph computes them all
    torch.testing.assert_close([t.cpu() for t in ours], theirs, rtol=tolerance, atol=tolerance)


def test_sum(tensors):
    same(sum, tensors, 1e-4)


@pytest.mark.parametrize("join", [torch.stack, torch.cat, lambda x: torch.cat(x, 1), lambda x: torch.stack(x).sum(0)])
def test_join(tensors, join):
    same(join, tensors, 1e-4)


def test_all_partial_sums(tensors):
    def partial(x):
        sums = [x[0]]
        for t in x[1:]:
            sums.append(sums[-1] + t)
        return sums
    same(partial, tensors, 1e-4)


def test_many_results_of_one_input(tensors):
    same(lambda x: [x[0].exp() * k for k in range(MANY)], tensors)


def test_many_reductions_of_one_input(tensors):
    same(lambda x: [(x[0].softmax(1) + k / MANY).exp().sum(1) for k in range(MANY)], tensors)


def test_foreach(tensors):
    def program(x):
        x = list(torch._foreach_add(x, x, alpha=0.5))
        torch._foreach_mul_(x, 0.25)
        return x + [torch.stack(torch._foreach_norm(x)).norm()]
    same(program, tensors)


def test_optimizer_with_many_small_parameters():
    torch.manual_seed(0)
    start = [torch.randn(3, 4) for _ in range(400)]

    def program(device):
        parameters = [torch.nn.Parameter(t.to(device)) for t in start]
        optimizer = torch.optim.AdamW(parameters, 1e-2, foreach=True)
        for _ in range(2):
            optimizer.zero_grad()
            sum((p * p).sum() for p in parameters).backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
            optimizer.step()
        return [p.detach().cpu() for p in parameters]
    torch.testing.assert_close(program(D), program("cpu"), rtol=1e-4, atol=1e-5)
