# Every target sets up what it needs by itself; a machine with Python 3.11 or newer is enough.
#   make PYTHON=python3.12 test     with a Python of your choice
#   make test ARGS="-k backfill"    more arguments for pytest

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?=
ARGS ?=
# Processes for tests that mostly wait for programs; others run beside them (tools/run_tests.py). 0 runs all in one.
WORKERS ?=
export WORKERS

# Real batch logs, for the tests that replay them; without them these tests are skipped, and say so.
ifeq ($(origin CRESS_TRACES),undefined)
ifneq ($(wildcard ../shared/traces),)
export CRESS_TRACES := $(CURDIR)/../shared/traces
endif
endif

# The tests start hundreds of programs: each would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

PYTEST := $(BIN)/python tools/run_tests.py
# What is checked, besides the package; the benchmarks join when they exist.
CODE := src tests tools $(wildcard benchmarks)

.DEFAULT_GOAL := help
.PHONY: help setup packages warm demo test test-long mutants check format bench faults lock clean

help: ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-10s %s\n", $$1, $$2}'

setup: ## make or refresh .venv (every other target does it when needed)
	@PYTHON='$(PYTHON)' sh tools/bootstrap.sh

packages:
	@sh tools/packages.sh

# Compiles all of the scheduler's kernels, and the launcher of tasks, when they are new: once, not in every test process
# at the same time.
warm: setup
	@$(BIN)/python -m cress.core.warm
	@$(BIN)/python -m cress.executor.runtimes.launcher

demo: setup ## run a small cluster for half a minute, live, and check what happened
	$(BIN)/cress demo $(ARGS)

test: warm packages ## run the tests (without the long ones)
	$(PYTEST) -m 'not long' $(ARGS)

test-long: warm packages ## run all the tests, the long ones too, with more examples each
	$(PYTEST) --hypothesis-profile=long --timeout=1200 $(ARGS)

mutants: warm ## try small mutants of a change against its nearest tests (BASE= FILES= SEED= COUNT= MINUTES=)
	@$(BIN)/python -m tools.mutants $(if $(BASE),--base '$(BASE)') $(if $(FILES),--files $(FILES)) \
		$(if $(SEED),--seed '$(SEED)') $(if $(COUNT),--count '$(COUNT)') $(if $(MINUTES),--minutes '$(MINUTES)') $(ARGS)

# Everything is run even when something fails: one look shows all that is wrong.
check: setup ## style, types, and the rules of the house
	@failed=; run() { echo "$$*"; "$$@" || failed="$$failed $${1##*/}"; }; \
	run $(BIN)/ruff check $(CODE); \
	run $(BIN)/ruff format --check $(CODE); \
	run $(BIN)/mypy $(CODE); \
	run $(BIN)/lint-imports --no-logo; \
	run $(BIN)/python -m tools.house; \
	if [ -n "$$failed" ]; then echo "make check: failed:$$failed" >&2; exit 1; fi

format: setup ## let ruff repair what it can
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

bench: warm ## measure; prints a table and writes JSON
	PYTHONPATH=. $(BIN)/python -m benchmarks $(ARGS)

faults: warm packages ## strike a cluster of three centers in turn, and measure the pauses (ARGS="--store postgresql --rounds 15")
	PYTHONPATH=. $(BIN)/python -m benchmarks.faults $(ARGS)

# uv resolves for every supported Python at once, which pip cannot; installing needs pip only.
lock: setup ## write requirements.lock anew from pyproject.toml
	$(BIN)/python -m venv build/lock
	build/lock/bin/python -m pip install --quiet --disable-pip-version-check uv
	build/lock/bin/uv pip compile pyproject.toml --quiet --upgrade --extra all --extra dev --python-version 3.11 \
		--universal --fork-strategy fewest --generate-hashes --no-annotate --no-emit-index-url --no-emit-find-links \
		--custom-compile-command 'make lock' --output-file requirements.lock

clean: ## remove everything that can be made again
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
