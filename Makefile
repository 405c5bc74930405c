# make demo    train examples/mnist.py on the device "tiny"          make test     every test; last line "N passed, N failed"
# make         set up and build into build/ and torch_ext/torch_tiny  make core     the core and its tests, without torch
# make bench   side by side with torch                                make core-dist  the core as an archive for machines without LLVM
# VENV=path uses that virtual environment instead of .venv.
SHELL := /bin/bash
VENV ?= .venv
JOBS ?= $(shell nproc)
PYTHON := $(VENV)/bin/python
STAMP := $(VENV)/.torch-tiny-setup
CMAKE := scripts/with_tools.sh $(VENV) cmake

.PHONY: all build demo test core core-test bench bench-core core-dist clean
all: build

$(STAMP): scripts/setup.sh
	scripts/setup.sh $(VENV)

build/build.ninja: $(STAMP) CMakeLists.txt $(wildcard cmake/*)
	$(CMAKE) -G Ninja -B build -DTINY_TORCH=ON -DPython_EXECUTABLE=$(abspath $(PYTHON))

build: build/build.ninja
	$(CMAKE) --build build -j $(JOBS)
	$(PYTHON) scripts/develop.py

demo: build
	$(PYTHON) examples/mnist.py --device tiny

test: build
	$(PYTHON) tests/run_all.py --build build

# The core alone needs no Python package and no torch.
build-core/build.ninja: CMakeLists.txt $(wildcard cmake/*)
	scripts/setup.sh --system-only
	$(CMAKE) -G Ninja -B build-core -DTINY_TORCH=OFF

core: build-core/build.ninja
	$(CMAKE) --build build-core -j $(JOBS)
	python3 tests/run_all.py --build build-core --core-only

bench: build
	$(PYTHON) benchmarks/compare.py $(BENCH)

bench-core: build
	$(CMAKE) --build build -j $(JOBS) --target bench_node
	build/benchmarks/bench_node

core-dist: build/build.ninja
	$(CMAKE) --build build -j $(JOBS) --target tinygrad_core
	$(PYTHON) scripts/core_dist.py --build build

clean:
	rm -rf build build-core dist torch_ext/torch_tiny/*.so
