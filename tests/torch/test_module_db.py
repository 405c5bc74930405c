"""PyTorch's own databases of modules and optimizers, run on the device and compared with CPU: results, gradients, state, steps.

A sample by hash of the name; --full takes all.
"""
import copy
import io
import itertools
import zlib

import pytest
import torch
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db
from torch.utils._pytree import tree_map

from test_opinfo_sample import D, is_tensor, tensors_of

PARTS, SAMPLES = 6, 3


def sampled(infos, name):
    return [pytest.param(x, id=name(x), marks=[] if zlib.crc32(name(x).encode()) % PARTS == 0 else pytest.mark.slow) for x in infos]


def moved(tree, device):
    return tree_map(lambda x: x.detach().clone().to(device).requires_grad_(x.requires_grad) if is_tensor(x) else x, tree)


def modules(info, training):
    """(module on CPU, its inputs) of some of the database's samples."""
    inputs = info.module_inputs_func(info, "cpu", torch.float32, requires_grad=True, training=training)
    for sample in itertools.islice((s for s in inputs if s.forward_input is not None), SAMPLES):
        torch.manual_seed(0)
        module = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs).float().train(training)
        if info.is_lazy:
            module(*sample.forward_input.args, **sample.forward_input.kwargs)
        yield module, (sample.forward_input.args, sample.forward_input.kwargs)


def forward_and_gradients(module, inputs):
    args, kwargs = inputs
    torch.manual_seed(0)
    results = tensors_of(module(*args, **kwargs))
    leaves = [t for t in [*tensors_of(inputs), *module.parameters()] if t.requires_grad]
    ends = [t for t in results if t.requires_grad]
    weights = [torch.linspace(0.5, 1.5, max(t.numel(), 1))[:t.numel()].reshape(t.shape).to(t.device) for t in ends]
    grads = torch.autograd.grad(ends, leaves, weights, allow_unused=True) if ends and leaves else []
    return results, list(grads), list(module.buffers())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("info", sampled(module_db, lambda m: m.name))
def test_module(info, training):
    done = 0
    for module, inputs in modules(info, training):
        if any(isinstance(m, (torch.nn.modules.dropout._DropoutNd, torch.nn.RReLU)) and m.training for m in module.modules()):
            continue  # random: test_distributions.py
        twin = copy.deepcopy(module).to(D)
        want, got = forward_and_gradients(module, moved(inputs, "cpu")), forward_and_gradients(twin, moved(inputs, D))
        for a, b in zip(want, got, strict=True):
            for x, y in zip(a, b, strict=True):
                assert (x is None) == (y is None)
                if x is not None:
                    assert y.device.type == D
                    torch.testing.assert_close(y.cpu(), x, rtol=1.3e-6, atol=2e-5, equal_nan=True)
        done += 1
    if not done:
        pytest.skip("only random samples")


@pytest.mark.parametrize("info", sampled(module_db, lambda m: m.name))
def test_state_of_a_module(info):
    """state_dict has the same keys and values, loads into another module, and goes through a file."""
    for module, _ in modules(info, training=True):
        twin = copy.deepcopy(module).to(D)
        want, got = module.state_dict(), twin.state_dict()
        assert list(want) == list(got)
        file = io.BytesIO()
        torch.save(got, file)
        file.seek(0)
        other = copy.deepcopy(module).to(D)
        with torch.no_grad():
            for p in other.parameters():
                p.zero_()
        other.load_state_dict(torch.load(file, map_location=D))
        for name, x in other.state_dict().items():
            assert not is_tensor(x) or x.device.type == D
            torch.testing.assert_close(x.cpu() if is_tensor(x) else x, want[name], rtol=0, atol=0, equal_nan=True)


def problem(device, biases):
    """In float64: LBFGS divides by differences of sums, whose last bits depend on the sums' order."""
    torch.manual_seed(0)
    layers = torch.nn.Linear(6, 8, bias=biases), torch.nn.Tanh(), torch.nn.Linear(8, 3, bias=biases)
    x, y = torch.linspace(-1, 1, 60).reshape(10, 6), torch.linspace(0, 1, 30).reshape(10, 3)
    return torch.nn.Sequential(*layers).double().to(device), x.double().to(device), y.double().to(device)


def parameters_after(info, sample, device, steps=4, **more):
    model, x, y = problem(device, biases=info.optim_cls is not torch.optim.Muon)
    optimizer = info.optim_cls(model.parameters(), **moved(sample.kwargs, device), **more)

    def closure():
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    for k in range(steps):
        closure()
        optimizer.step(closure if info.step_requires_closure else None)
        if k == steps // 2:  # through its state
            state = optimizer.state_dict()
            optimizer = info.optim_cls(model.parameters(), **moved(sample.kwargs, device), **more)
            optimizer.load_state_dict(state)
    return [p.detach().cpu() for p in model.parameters()]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("info", [p for p in sampled(optim_db, lambda o: o.optim_cls.__name__)
                                  if not p.values[0].only_supports_sparse_grads])
def test_optimizer(info):
    for sample in itertools.islice(info.optim_inputs_func(device="cpu"), 4):
        want = parameters_after(info, sample, "cpu")
        for form in ({}, {"foreach": True}, {"fused": True}):
            if form and next(iter(form)) not in info.supported_impls:
                continue
            if form and set(form) & set(sample.kwargs):
                continue
            try:
                parameters_after(info, sample, "cpu", steps=1, **form)
            except (RuntimeError, ValueError):  # these settings have no such form
                continue
            for a, b in zip(want, parameters_after(info, sample, D, **form), strict=True):
                torch.testing.assert_close(b, a)
