"""Saving, loading, copying, pickling, sending to other processes."""
import copy
import io
import os
import pickle
import subprocess
import sys

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
import torch, torch.multiprocessing as mp

def child(queue, back):
    x = queue.get(timeout=200)
    assert x.device.type == 'tiny'
    back.put((x * 2).cpu())

if __name__ == '__main__':
    context = mp.get_context('spawn')
    queue, back = context.Queue(), context.Queue()
    process = context.Process(target=child, args=(queue, back))
    process.start()
    queue.put(torch.arange(4., device='tiny'))
    print(back.get(timeout=200).tolist())
    process.join(60)
    assert process.exitcode == 0
"""


def test_other_processes(tmp_path):
    path = tmp_path / "processes.py"
    path.write_text(PROCESSES)
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=400)
    assert done.stdout.strip() == "[0.0, 2.0, 4.0, 6.0]", done.stderr


def test_data_loader_with_workers():
    data = torch.utils.data.TensorDataset(torch.arange(12.))
    loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=2, pin_memory=True)
    torch.ones(1, device=D).item()  # the device is open when the workers are forked
    total = 0.0
    for (x,) in loader:
        assert x.is_pinned()
        total += x.to(D, non_blocking=True).sum().item()
    assert total == 66
