# SPDX-License-Identifier: Apache-2.0
# Every target sets up what it needs: a virtual environment in .venv, the packages, the kernel cache in .warp_cache.
#   make demo | test | test-all | lint | types | docs | bench | wheel | sdist | release | cuda-check | cuda-changed | gpu-quick | gpu-proof | corpus | blender | nightly | clean
# Variables: PYTHON (the interpreter to start from), BLENDER_PYTHON (one of the version that bpy needs), WARP_CACHE_PATH (compiled kernels), DEMO_ARGS (as --no-open), PYTEST_ARGS, TESTS (--quick or --ci), BENCH_ARGS, CUDA_ARGS.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export WARP_CACHE_PATH ?= $(CURDIR)/.warp_cache
# Texts are UTF-8, whatever the shell's locale.
export PYTHONUTF8 := 1
PYTEST_ARGS ?= -n 2 --dist worksteal
DEMO_ARGS ?=
BENCH_ARGS ?=
BLENDER_PYTHON ?= python3.11
CUDA_ARGS ?=

# Without --no-compile pip compiles every file of every package; this way Python compiles those that are imported, once.
# Where Python shall not write byte code, each start would compile them again: there pip does.
NO_COMPILE := $(if $(PYTHONDONTWRITEBYTECODE),,--no-compile)
SETUP_LINE := -I warpsim/tools/setup_line.py
INSTALL := $(BIN)/python $(SETUP_LINE) packages -m pip install --disable-pip-version-check $(NO_COMPILE)

.PHONY: demo test test-all lint types docs docs-nightly docs-links bench wheel sdist release cuda-check cuda-changed gpu-quick gpu-proof bounds corpus blender nightly clean
# Packages whose robot files `make corpus` reads; they are unpacked, not installed.
# myosuite 3 comes without its models.
CORPUS ?= dm_control gymnasium_robotics gymnasium robosuite metaworld "myosuite<3" brax mjlab
# Robot and contact law of the budgets and emulations, of the emulations alone, of backward passes, and the tests whose kernels check their indices.
GPU_CASES ?= humanoid/lagged humanoid/convex ant/lagged hopper/lagged
EMULATED_CASES ?= half_cheetah/convex arm/lagged clutter/lagged
BACKWARD_CASES ?= humanoid/lagged ant/lagged hopper/convex
BOUNDS_BACKWARD ?= tests/contact/test_broadphase.py tests/differentiate/test_step_gradient.py tests/solve/test_scratch.py
BOUNDS_TESTS ?= tests/contact tests/integrate tests/laws tests/linalg tests/rows tests/solve tests/tree -k "$(FORWARD)"
# Of backward passes those of BOUNDS_BACKWARD alone.
FORWARD ?= not gradient and not adjoint and not turn
.DEFAULT_GOAL := demo

$(BIN)/python:
	@$(PYTHON) $(SETUP_LINE) "environment $(VENV)" -m venv $(VENV)

# The stamps make the second run quick; a change of pyproject.toml installs again.
$(VENV)/demo.stamp: $(BIN)/python pyproject.toml
	@$(INSTALL) -e ".[demo]"
	@touch $@

$(VENV)/test.stamp: $(BIN)/python pyproject.toml
	@$(INSTALL) -e ".[test,demo]"
	@touch $@ $(VENV)/demo.stamp

$(VENV)/bench.stamp: $(BIN)/python pyproject.toml
	@$(INSTALL) -e ".[bench]"
	@touch $@

$(VENV)/docs.stamp: $(BIN)/python pyproject.toml
	@$(INSTALL) -e ".[docs]"
	@touch $@

$(VENV)/release.stamp: $(BIN)/python pyproject.toml
	@$(INSTALL) -e ".[release]"
	@touch $@

$(VENV)/cuda.stamp: $(VENV)/demo.stamp
	@$(INSTALL) -e ".[demo,cuda]"
	@touch $@

demo: $(VENV)/demo.stamp
	@$(BIN)/warpsim demo --device cpu $(DEMO_ARGS)

# Kernels are compiled first, each once. The rest of the tests is left to `make test-all` (CONTRIBUTING.md).
# TESTS=--ci: the tests of continuous integration, which are more.
TESTS ?= --quick
# A test that takes five minutes hangs: its process prints where each of its threads is and ends; pytest-xdist reports the test and goes on.
HANGS := -o faulthandler_timeout=300 -o faulthandler_exit_on_timeout=true
test: $(VENV)/test.stamp
	$(BIN)/python -m tests.warm $(filter --ci,$(TESTS))
	$(BIN)/python -m pytest $(TESTS) $(HANGS) $(PYTEST_ARGS)

test-all: $(VENV)/test.stamp
	$(BIN)/python -m tests.warm --all
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# Every public name has a complete type (pyright; it brings a Node of its own where there is none).
types: $(VENV)/test.stamp
	$(BIN)/python -m benchmarks.public_types

# The site in build/site: a warning is an error, links and anchors between pages are checked, and searches find their pages.
# Tutorials show stored outputs (docs/stored_outputs.py).
SPHINX = $(BIN)/python -m sphinx -q -W --keep-going -c docs -d build/doctrees
docs: $(VENV)/docs.stamp
	$(SPHINX) -b html . build/site
	$(BIN)/python docs/check_search.py build/site

# The same with the tutorials run.
docs-nightly: $(VENV)/docs.stamp
	@$(INSTALL) -e ".[docs,train,export,show,cluster]"
	DOCS_EXECUTE=force $(SPHINX) -E -b html . build/site

# Links that leave the site; asks every one of them.
docs-links: $(VENV)/docs.stamp
	$(SPHINX) -b linkcheck . build/links

bench: $(VENV)/bench.stamp
	$(BIN)/warpsim bench $(BENCH_ARGS)

# The wheel with kernels compiled for Linux on x86-64, in dist; the kernel cache keeps what is compiled.
wheel: $(VENV)/test.stamp
	$(BIN)/python -m warpsim.tools.kernel_objects --out build/objects
	WARPSIM_OBJECTS=build/objects $(BIN)/python -m hatchling build -t wheel -d dist

# The source distribution, and from it, in an environment of its own, the wheel for all platforms; in dist.
sdist: $(VENV)/release.stamp
	$(BIN)/python -m build --outdir dist .

# All that a release uploads, in dist, with its metadata checked.
release: wheel sdist
	$(BIN)/twine check --strict dist/*

cuda-check: $(VENV)/demo.stamp
	$(BIN)/python -m warpsim.tools.kernel_modules $(CUDA_ARGS)

# The quick half of it, for the modules that changed since tests/cuda_passed.json, which is brought up to date.
cuda-changed: $(VENV)/demo.stamp
	$(BIN)/python -m warpsim.tools.kernel_modules --machine-code none --dtype float32 --without _8 --passed tests/cuda_passed.json

# What a GPU would do, without one (docs/gpu_checks.md): the quick half, and all of it.
gpu-quick: $(VENV)/cuda.stamp
	$(BIN)/python -m benchmarks.gpu.budget --quick
	$(BIN)/python -m benchmarks.gpu.emulate --quick --robot ant --worlds 64
	$(BIN)/python -m benchmarks.gpu.emulate --thrown --only space smooth detect --warp 0 --worlds 64
	$(BIN)/python -m benchmarks.gpu.emulate --contact convex --only space --robot ant --worlds 64
	$(BIN)/python -m benchmarks.gpu.emulate --backward --contact convex --only sap. --worlds 32 --warp 0
	$(BIN)/python -m benchmarks.thread_order --quick

gpu-proof: $(VENV)/cuda.stamp bounds
	for case in $(GPU_CASES); do \
	    options="--robot $${case%/*} --contact $${case#*/} --out benchmarks/results"; \
	    $(BIN)/python -m benchmarks.gpu.budget $$options && $(BIN)/python -m benchmarks.gpu.emulate $$options || exit 1; done
	for case in $(EMULATED_CASES); do \
	    $(BIN)/python -m benchmarks.gpu.emulate --robot $${case%/*} --contact $${case#*/} --out benchmarks/results || exit 1; done
	for case in $(BACKWARD_CASES); do \
	    options="--backward --robot $${case%/*} --contact $${case#*/} --worlds 32 --warp 0"; \
	    $(BIN)/python -m benchmarks.gpu.emulate $$options --dtype float64 && $(BIN)/python -m benchmarks.gpu.emulate $$options --only keep_factor adjoint || exit 1; done
	$(BIN)/python -m benchmarks.thread_order

# Indices of every array checked in every kernel; one outside ends the process.
bounds: $(VENV)/test.stamp
	$(BIN)/python -m pytest --bounds $(PYTEST_ARGS) $(BOUNDS_TESTS)
	$(BIN)/python -m pytest --bounds $(PYTEST_ARGS) $(BOUNDS_BACKWARD)

corpus: $(VENV)/test.stamp
	@mkdir -p build/corpus
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps -d build/corpus/wheels $(CORPUS)
	for wheel in build/corpus/wheels/*.whl; do \
	    name=$$(basename $$wheel | cut -d- -f1); $(BIN)/python -m zipfile -e $$wheel build/corpus/$$name; done
	rm -f build/corpus/rows.jsonl
	$(BIN)/python -m benchmarks.corpus --rows build/corpus/rows.jsonl --page benchmarks/results/corpus.md \
	    $$(find build/corpus -mindepth 1 -maxdepth 1 -type d ! -name wheels | sort)
	$(BIN)/python -m benchmarks.figures

# Our USD as Blender draws it, in build/blender; bpy has an environment of its own.
build/bpy/stamp:
	$(BLENDER_PYTHON) -m venv build/bpy
	build/bpy/bin/python -m pip install --quiet --disable-pip-version-check "bpy==5.0.*"
	@touch $@

blender: $(VENV)/test.stamp build/bpy/stamp
	$(BIN)/python -m benchmarks.blender --blender build/bpy/bin/python --out build/blender

# What takes too long for every change: hours, one after the other.
nightly: test-all corpus gpu-proof
	WARPSIM_CORPUS=build/corpus $(BIN)/python -m pytest -n 0 tests/test_corpus.py tests/test_shipped_examples.py
	$(BIN)/python -m warpsim.tools.kernel_modules --machine-code all --passed build/cuda_passed.json
	$(MAKE) --no-print-directory wheel
	$(BIN)/python -m benchmarks.certificate --out benchmarks/results
	$(BIN)/python -m benchmarks.gradient_grid --out benchmarks/results
	$(BIN)/python -m benchmarks.gradient_grid --impacts --out benchmarks/results
	$(BIN)/python -m benchmarks.gradient_fuzz --out benchmarks/results
	$(BIN)/python -m benchmarks.gradient_fuzz --impacts --out benchmarks/results
	$(BIN)/python -m benchmarks.useful_gradients --out benchmarks/results
	$(BIN)/python -m benchmarks.solver_suite --out benchmarks/results
	$(BIN)/python -m benchmarks.bits --out benchmarks/results
	$(BIN)/python -m benchmarks.faults --out benchmarks/results
	$(BIN)/python -m benchmarks.mutants --out benchmarks/results
	$(BIN)/python -m benchmarks.wrong_calls --out benchmarks/results
	$(BIN)/python -m benchmarks.kills --times 100 --out benchmarks/results
	$(BIN)/python -m benchmarks.streaming --out benchmarks/results
	$(BIN)/python -m benchmarks.usd_streaming --out benchmarks/results
	$(MAKE) --no-print-directory blender
	$(BIN)/python -m benchmarks.soak --out benchmarks/results
	@$(INSTALL) -e ".[train,sb3,jax]" example-robot-data
	$(BIN)/python -m pytest $(PYTEST_ARGS) tests/envs tests/test_tutorials.py
	$(MAKE) --no-print-directory docs-nightly
	$(BIN)/python -m benchmarks.envs --out benchmarks/results
	$(BIN)/python -m benchmarks.train --out build/train --pages build/train

clean:
	rm -rf $(VENV) .warp_cache out dist build
