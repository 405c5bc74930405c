"""The house rules that a program can check: who may include whom, sizes of files and lines, names."""
import os
import re
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MAX_FILE, MAX_LINE = 600, 140
MAX_CASE_LINE = 190  # a table's row, and a case of a Python test, stay on one line

# A file may include files of its own layer and of those above it in this list. Single files may live elsewhere than their folder says.
LAYERS = [
    ("base",),
    ("uop",),
    ("tensor", "renderer/caps"),
    ("schedule", "codegen"),
    ("renderer",),
    ("runtime",),
    ("engine",),
    ("api",),
]
# `schedule` names kernels with codegen's words; never the other way round.
FORBIDDEN = {("codegen", "schedule")}
# Header files with vocabulary that slows every build or hides cost.
BANNED_INCLUDES = {"iostream": ("tinygrad_core", "csrc"), "regex": ("tinygrad_core", "csrc"),
                   "functional": ("tinygrad_core/uop", "tinygrad_core/codegen")}
TORCH_INCLUDE = re.compile(r'#\s*include\s*[<"](ATen|c10|torch|Python\.h|pybind11)')
EXEMPT_SIZE = ("third_party/", "/gen/")


def tracked(*suffixes):
    names = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    if names.returncode:
        pytest.skip("not a git checkout")
    return [n for n in names.stdout.splitlines() if n.endswith(suffixes) and os.path.exists(os.path.join(ROOT, n))]


def text_of(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as f:
        return f.read()


def layer_of(path):
    """Number of the layer of a path below tinygrad_core; the longest entry that fits wins."""
    best = (-1, None)
    for number, entries in enumerate(LAYERS):
        for entry in entries:
            if (path == entry or path.startswith((entry + "/", entry + "."))) and len(entry) > best[0]:
                best = (len(entry), number)
    return best[1]


SOURCES = tracked(".h", ".cpp", ".def", ".py", ".sh") if os.path.exists(os.path.join(ROOT, ".git")) else []
CORE = [n for n in SOURCES if n.startswith("tinygrad_core/")]


def report(problems):
    assert not problems, f"{len(problems)} problem(s):\n" + "\n".join(problems[:40])


def test_every_core_file_has_a_layer():
    report([n for n in CORE if layer_of(n[len("tinygrad_core/"):]) is None])


def test_includes_go_one_way():
    problems = []
    for name in CORE:
        here = name[len("tinygrad_core/"):]
        for included in re.findall(r'#\s*include\s*"([^"]+)"', text_of(name)):
            there = layer_of(included)
            if there is None:
                if not os.path.exists(os.path.join(ROOT, "third_party", included)):
                    problems.append(f"{name}: {included} belongs to no layer")
            elif there > layer_of(here):
                problems.append(f"{name} includes {included} of a higher layer")
            elif (here.split("/")[0], included.split("/")[0]) in FORBIDDEN:
                problems.append(f"{name} includes {included}")
    report(problems)


def test_core_and_lowerings_see_no_torch():
    report([n for n in SOURCES if n.startswith(("tinygrad_core/", "csrc/lower/")) and TORCH_INCLUDE.search(text_of(n))])


def test_glue_enters_the_core_by_its_api():
    """csrc includes api.h, its own files, and of the core only what api.h itself hands on, and the operators of attention and of an LSTM's layer."""
    public = {"api.h", "base/error.h", "base/hash.h", "base/small.h", "base/env.h", "base/interrupt.h", "base/log.h", "engine/engine.h", "engine/storage.h",
              "tensor/attention.h", "tensor/lstm.h", "tensor/tensor.h", "uop/graph.h", "uop/uop.h", "uop/dtype.h", "uop/dtype.def", "uop/ops.h", "runtime/device.h"}
    problems = []
    for name in SOURCES:
        if name.startswith("csrc/"):
            for included in re.findall(r'#\s*include\s*"([^"]+)"', text_of(name)):
                if os.path.exists(os.path.join(ROOT, "tinygrad_core", included)) and included not in public:
                    problems.append(f"{name} includes {included}")
    report(problems)


def test_banned_includes():
    report([f"{n}: <{header}>" for header, folders in BANNED_INCLUDES.items() for n in SOURCES
            if n.startswith(tuple(f + "/" for f in folders)) and re.search(rf"#\s*include\s*<{header}>", text_of(n))])


def test_headers_are_included_once():
    report([n for n in SOURCES if n.endswith(".h") and not n.startswith("third_party/") and "#pragma once" not in text_of(n)])


def test_tables_undefine_their_macro():
    """In the table itself, or where several tables are read as one."""
    readers = "".join(text_of(n) for n in SOURCES if n.endswith(".cpp") and ".def\"" in text_of(n) and "#undef" in text_of(n))
    report([n for n in SOURCES if n.endswith(".def") and "#undef" not in text_of(n) and f'#include "{os.path.basename(n)}"' not in readers])


def test_sizes():
    problems = []
    for name in SOURCES:
        if any(part in name for part in EXEMPT_SIZE):
            continue
        lines = text_of(name).splitlines()
        if len(lines) > MAX_FILE and not name.endswith(".def"):
            problems.append(f"{name}: {len(lines)} lines, at most {MAX_FILE}")
        wide = name.endswith(".def") or (name.startswith("tests/") and name.endswith(".py"))
        limit = MAX_CASE_LINE if wide else MAX_LINE
        problems += [f"{name}:{i}: {len(line)} characters, at most {limit}" for i, line in enumerate(lines, 1) if len(line) > limit]
    report(problems)


def test_examples_are_short():
    report([n for n in SOURCES if n.startswith("examples/") and len(text_of(n).splitlines()) > 120])


def test_indentation_and_line_ends():
    problems = []
    for name in SOURCES:
        if name.startswith("third_party/"):
            continue
        text = text_of(name)
        problems += [f"{name}:{i}: tab or trailing space" for i, line in enumerate(text.split("\n"), 1)
                     if "\t" in line or line != line.rstrip()]
        if not text.endswith("\n"):
            problems.append(f"{name}: no newline at the end")
    report(problems)


DSL_TYPES = {"tinygrad_core/uop/pattern.h"}  # words of the pattern language, written as in algebra


def test_names():
    """Files are snake_case; types of C++ are CamelCase and functions of Python snake_case."""
    ours = [n for n in SOURCES if not n.startswith("third_party/")]
    problems = [n for n in ours if not re.fullmatch(r"_*[a-z0-9_]+", os.path.basename(n).split(".")[0])]
    for name in SOURCES:
        if name.startswith("third_party/"):
            continue
        if name.endswith((".h", ".cpp")) and name not in DSL_TYPES:
            types = re.findall(r"^\s*(?:class|struct|enum class)\s+([a-z]\w*)\b(?=[^;=]*\{)", text_of(name), re.M)
            problems += [f"{name}: {t}" for t in types]
        elif name.endswith(".py"):
            functions = re.findall(r"^\s*def\s+(\w*[A-Z]\w*)\(", text_of(name), re.M)
            problems += [f"{name}: {f}" for f in functions if not f.startswith("_")]
    report(problems)


def test_no_leftovers():
    """Marks of unfinished work and history do not belong into the source."""
    marks = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
    report([f"{n}:{i}" for n in SOURCES if not n.startswith("third_party/")
           for i, line in enumerate(text_of(n).splitlines(), 1) if marks.search(line)])
