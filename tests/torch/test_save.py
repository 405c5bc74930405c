"""Saving, loading, copying, pickling, sending to other processes."""
import copy
import io
import os
import pickle
import subprocess
import sys
from multiprocessing.reduction import ForkingPickler

import pytest
import torch

D = "tiny"


def round_trip(x, **options):
    f = io.BytesIO()
    torch.save(x, f)
    f.seek(0)
    return torch.load(f, **options)


def test_tensors_come_back_where_they_were():
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64):
        x = torch.randn(3, 4).to(dtype)
        y = round_trip(x.to(D))
        assert y.device.type == D and torch.equal(y.cpu(), x)
    t = round_trip(torch.arange(6.).reshape(2, 3).to(D).t())
    assert t.stride() == (1, 3) and t.tolist() == [[0, 3], [1, 4], [2, 5]]


def test_sharing_is_kept():
    x = torch.arange(6., device=D)
    a, b = round_trip([x, x[2:]])
    a[3] = 9
    assert b[1].item() == 9


def test_pending_values_are_saved():
    x = torch.ones(4, device=D) * 3
    assert round_trip({"x": x, "y": x + 1})["y"].tolist() == [4] * 4


def test_saving_leaves_the_memory_free_to_move():
    x = torch.arange(4., device=D)
    round_trip(x)
    before = torch.tiny.memory_allocated()
    for _ in range(3):
        x.add_(1)
        torch.tiny.synchronize()
    assert torch.tiny.memory_allocated() == before and x.tolist() == [3, 4, 5, 6]


def test_map_location():
    x = torch.arange(3.)
    assert round_trip(x.to(D), map_location="cpu").device.type == "cpu"
    y = round_trip(x, map_location=D)
    assert y.device.type == D and torch.equal(y.cpu(), x)
    assert round_trip(x.to(D), map_location=torch.device("tiny", 0)).device.index == 0
    assert round_trip(x.to(D), weights_only=False).device.type == D


def test_loading_without_this_package(tmp_path):
    path = tmp_path / "x.pt"
    torch.save({"x": torch.arange(4., device=D) + 1}, path)
    code = f"import torch; assert not hasattr(torch, 'tiny'); print(torch.load({str(path)!r}, map_location='cpu')['x'].tolist())"
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ,
                          "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}, capture_output=True, text=True)
    assert done.stdout.strip() == "[1.0, 2.0, 3.0, 4.0]", done.stderr


def test_model_and_optimizer():
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2)).to(D)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)

    def step(m, o):
        o.zero_grad()
        m(torch.linspace(-1, 1, 12).reshape(3, 4).to(D)).pow(2).sum().backward()
        o.step()

    step(model, optimizer)
    state = round_trip({"m": model.state_dict(), "o": optimizer.state_dict()})
    other = copy.deepcopy(model)
    with torch.no_grad():
        for p in other.parameters():
            p.zero_()
    other.load_state_dict(state["m"])
    again = torch.optim.AdamW(other.parameters(), lr=0.1)
    again.load_state_dict(state["o"])
    step(model, optimizer)
    step(other, again)
    for a, b in zip(model.state_dict().values(), other.state_dict().values(), strict=True):
        assert torch.equal(a.cpu(), b.cpu())


def test_state_dict_on_the_cpu_loads_into_a_tiny_model():
    a, b = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3).to(D)
    b.load_state_dict(a.state_dict())
    assert torch.equal(b.weight.cpu(), a.weight)


def test_copies():
    m = torch.nn.Linear(3, 3).to(D)
    c = copy.deepcopy(m)
    with torch.no_grad():
        c.weight.zero_()
    assert m.weight.abs().sum().item() > 0 and c.weight.device == m.weight.device
    x = torch.arange(3., device=D)
    s = copy.copy(x)
    s[0] = 5
    assert x[0].item() == 5
    p = pickle.loads(pickle.dumps(torch.nn.Parameter(x)))
    assert isinstance(p, torch.nn.Parameter) and p.device.type == D and torch.equal(p.detach().cpu(), x.cpu())


def test_storages():
    s = torch.arange(4., device=D).untyped_storage()
    assert s.device.type == D and s.nbytes() == 16 and s.is_tiny
    assert bytes(s.cpu().tolist()) == bytes(torch.arange(4.).untyped_storage().tolist())
    c = s.clone()
    c[0] = 255
    assert s.cpu()[0] == 0


PROCESSES = """
import sys, warnings, torch, torch.multiprocessing as mp

def child(queue, back):
    x, part, p, t = queue.get(timeout=200)
    assert x.device.type == part.device.type == p.device.type == 'tiny'
    part.add_(10)  # a view of x here as there
    assert isinstance(p, torch.nn.Parameter) and p.requires_grad and t.stride() == (1, 3)
    back.put([(x * 2).tolist(), p.tolist(), t.tolist()])
    del x, part, p, t

if __name__ == '__main__':
    context = mp.get_context(sys.argv[1])
    queue, back = context.Queue(), context.Queue()
    process = context.Process(target=child, args=(queue, back))
    process.start()
    x = torch.arange(4., device='tiny')
    queue.put((x, x[2:], torch.nn.Parameter(x[:1] + 7), torch.arange(6., device='tiny').reshape(2, 3).t()))
    print(back.get(timeout=200))
    process.join(60)
    assert process.exitcode == 0
    assert x.tolist() == [0, 1, 2, 3]
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_other_processes(method, tmp_path):
    """Tensors arrive as copies, with their strides and what they share among themselves; a warning says that they are copies, once."""
    path = tmp_path / "processes.py"
    path.write_text(PROCESSES)
    done = subprocess.run([sys.executable, path, method], capture_output=True, text=True, timeout=400)
    assert done.stdout.strip() == "[[0.0, 2.0, 24.0, 26.0], [7.0], [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]]", done.stderr
    assert done.stderr.count("sent to another process as a copy") == 1, done.stderr


def test_shared_memory_is_refused():
    for shared in (lambda: torch.ones(2, device=D).share_memory_(), lambda: torch.nn.Linear(2, 2, device=D).share_memory()):
        with pytest.raises(RuntimeError, match="cannot be shared between processes"):
            shared()
    assert not torch.ones(2, device=D).is_shared() and torch.ones(2).share_memory_().is_shared()
    with pytest.raises(RuntimeError, match="requires_grad"):
        ForkingPickler.dumps(torch.ones(2, device=D, requires_grad=True) * 2)


def test_parameters():
    """A parameter itself: pickled, copied, saved; alone, with a gradient and an attribute, and with what it shares."""
    p = torch.nn.Parameter(torch.arange(6., device=D).reshape(2, 3).t(), requires_grad=False)
    for q in (pickle.loads(pickle.dumps(p)), copy.deepcopy(p), copy.copy(p), round_trip(p), round_trip(p, weights_only=False)):
        assert type(q) is torch.nn.Parameter and q.device == p.device and not q.requires_grad
        assert q.stride() == p.stride() and torch.equal(q.cpu(), p.cpu())
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert torch.equal(pickle.loads(pickle.dumps(p, protocol=protocol)).cpu(), p.cpu())
    a, b = round_trip([p, p.data])
    b[0, 0] = 9
    assert isinstance(a, torch.nn.Parameter) and a[0, 0].item() == 9
    p = torch.nn.Parameter(torch.ones(3, device=D))
    p.note = "kept"
    (p * 2).sum().backward()
    q = copy.deepcopy(p)
    assert q.grad is None and q.requires_grad and p.grad.tolist() == [2, 2, 2]
    assert pickle.loads(pickle.dumps(p)).note == "kept" and round_trip(p, weights_only=False).note == "kept"
    before = torch.tiny.memory_allocated()
    for _ in range(3):
        pickle.dumps(p)
        p.data.add_(1)
        torch.tiny.synchronize()
    assert torch.tiny.memory_allocated() == before, "pickling leaves the memory free to move"


def test_data_loader_with_workers():
    data = torch.utils.data.TensorDataset(torch.arange(12.))
    loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=2, pin_memory=True)
    torch.ones(1, device=D).item()  # the device is open when the workers are forked
    total = 0.0
    for (x,) in loader:
        assert x.is_pinned()
        total += x.to(D, non_blocking=True).sum().item()
    assert total == 66
