"""The examples train as on CPU: the same losses for the first steps, and the demo's accuracy."""
import os
import re
import subprocess
import sys

import pytest

EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "examples")


def run(example, device, *arguments):
    command = [sys.executable, os.path.join(EXAMPLES, example), "--device", device, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def losses(example, device, folder, steps, *arguments):
    path = os.path.join(folder, device)
    run(example, device, "--steps", steps, "--losses", path, *arguments)
    with open(path) as f:
        return [float(line) for line in f]


@pytest.mark.parametrize("example, steps, arguments", [
    ("mnist.py", 20, ()),
    ("gpt.py", 20, ("--characters", 0)),
    ("resnet.py", 2, ("--batch", 16, "--size", 16)),
    ("resnet.py", 20, ("--batch", 16, "--size", 16, "--double")),
])
def test_first_losses(example, steps, arguments, tmp_path):
    """ResNet learns fast here and its batches are small: on the CPU alone, weights changed by their last bit (6e-8) give losses that differ by
    up to 1e-5 in the second step, 8e-3 in the third and 6e-2 in the fourth. So twenty steps are compared in float64, where rounding is no
    excuse, and two in float32."""
    want, got = (losses(example, device, tmp_path, steps, *arguments) for device in ("cpu", "tiny"))
    assert len(want) == len(got) == steps
    assert got == pytest.approx(want, rel=1e-8 if "--double" in arguments else 1e-4)


def test_demo_reaches_its_accuracy():
    out = run("mnist.py", "tiny")
    last = re.fullmatch(r"accuracy (0\.\d{4})", out.strip().splitlines()[-1])
    assert last and float(last[1]) >= 0.97, out[-300:]


def test_the_character_model_writes():
    out = run("gpt.py", "tiny", "--steps", 2, "--characters", 12)
    assert len(out.split("ms a step", 1)[1].lstrip("\n").rstrip("\n")) >= 8
