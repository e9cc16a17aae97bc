# Everything works from a fresh clone with Python 3.11+, make and a package index:
#   make demo     the main job on real input        make test    what CI runs
# Set PYTHON to choose the interpreter that .venv is made from.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
TESTED := $(VENV)/.ready-test
LINTED := $(VENV)/.ready-lint
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test test-all coverage check fmt lint types layers bench docs clean

demo: $(READY)
	$(BIN)/python demo/demo.py

test: $(TESTED)
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow"

test-all: $(TESTED)
	$(BIN)/python -m pytest -n 2 --dist loadfile

coverage: $(TESTED)
	$(PIP) "pytest-cov>=5"
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow" --cov=chunkwise --cov-report=term:skip-covered

check: lint types layers

fmt: $(LINTED)
	$(BIN)/ruff check --fix src tests benchmarks demo
	$(BIN)/ruff format src tests benchmarks demo

lint: $(LINTED)
	$(BIN)/ruff check src tests benchmarks demo docs
	$(BIN)/ruff format --check src tests benchmarks demo docs

types: $(LINTED)
	$(BIN)/mypy

layers: $(LINTED)
	$(BIN)/lint-imports

bench: $(TESTED)
	$(BIN)/python benchmarks/compare.py

docs: $(READY)
	$(PIP) -r requirements-docs.txt
	$(BIN)/mkdocs build --strict --quiet
	@echo "site/index.html"

clean:
	rm -rf $(VENV) demo-output build dist site

$(READY): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) -e ".[cli]"
	touch $@

$(TESTED): $(READY)
	$(PIP) -r requirements-test.txt
	touch $@

$(LINTED): $(READY)
	$(PIP) -r requirements-lint.txt
	touch $@
