# Every target sets up what it needs: .venv in the checkout, and ~/.cache/tangram for what is built once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-cluster test test-unit test-nojit lint format bench bench-cluster bench-packing controlplane clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(STAMP) ## .venv with everything that is needed

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else "Tangram needs Python 3.11 or newer; this is %d.%d. Set PYTHON=/path/to/python3.11" % v[:2])'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable . --group dev
	@touch $@

demo: setup ## the main job without a cluster: a stream of GPU pods through the webhooks, about a minute
	$(BIN)/tangram demo

demo-cluster: setup controlplane ## the same against a real control plane, which stays up until Ctrl-C
	$(BIN)/python -m benchmarks.demo_cluster

controlplane: setup ## build etcd, kube-apiserver, kube-scheduler … once (a quarter of an hour on two cores)
	$(BIN)/python tests/controlplane/build.py

test: setup controlplane ## all tests, through real Kubernetes binaries
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest -q tests/core -m 'not controlplane' -p no:cacheprovider
	$(BIN)/pytest --cov --cov-report=term:skip-covered

test-unit: setup ## the tests that need no control plane
	$(BIN)/pytest -m 'not controlplane'

lint: setup ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## let ruff put the code in form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup ## benchmarks that need no cluster; tables here, JSON in benchmarks/out/
	$(BIN)/python -m benchmarks

bench-packing: setup ## packing beside the published figures, on the openb traces (two hours of one core; resumable)
	$(BIN)/python -m benchmarks.packing

bench-cluster: setup controlplane ## pods per second on the real control plane beside stock kube-scheduler
	$(BIN)/python -m benchmarks --cluster

clean: ## remove .venv and caches in the checkout (not ~/.cache/tangram)
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis benchmarks/out
