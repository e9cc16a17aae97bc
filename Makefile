# Everything works from a fresh clone with Python 3.11+, make and a package index:
#   make demo       the main job on real input        make test    what CI runs
#   make test-core  what opening, reading and writing arrays and trees takes
# Set PYTHON to choose the interpreter that .venv is made from, after `make clean` if there is one of another.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
TESTED := $(VENV)/.ready-test
LINTED := $(VENV)/.ready-lint
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# Three workers for two processors: some tests wait.  They start hundreds of processes; where this is set, each of them compiles what it imports.
unexport PYTHONDONTWRITEBYTECODE

# Files run in the order of their names: xdist would put those of few tests last, and wait for the longest.
# Of the folders in docs/architecture.md, those that everything else is built on.
CORE := api chunk_key codec drivers dtypes engine grid image index_space interop kvstore ocdbt parity \
        plan precomputed specs trees virtual

.PHONY: demo test test-core test-all test-lowest test-newest coverage mutants release-check man check fmt lint types layers bench docs clean

demo: $(READY)
	$(BIN)/python demo/demo.py

test: $(TESTED)
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder -m "not slow"

test-core: $(TESTED)
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder -m "not slow" $(addprefix tests/,$(CORE))

test-all: $(TESTED)
	$(PIP) -r requirements-test-all.txt
	PATH="$(CURDIR)/$(BIN):$$PATH" CHUNKWISE_ALL_EXAMPLES=1 $(BIN)/python -m pytest -n 2 --dist loadfile

coverage: $(TESTED)
	$(PIP) "pytest-cov>=5"
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow" --cov=chunkwise --cov-report=term:skip-covered

# Takes the tests to run in TESTS: make release-check TESTS=tests/docs
release-check: $(TESTED)
	$(PIP) -r requirements-release.txt
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python release/check.py $(if $(TESTS),--tests $(TESTS))

# The lowest versions that pyproject.toml allows, and the newest of the index; VERSIONS="--python 3.13" is passed on.
test-lowest test-newest: test-%: $(READY)
	$(PIP) "uv>=0.5"
	$(BIN)/python release/versions.py $* $(VERSIONS)

# Changes one place at a time and lists what no test notices; MUTANTS="--sample 10 engine" is passed on.
mutants: $(TESTED)
	$(PIP) -r requirements-release.txt
	$(BIN)/python release/mutants.py $(MUTANTS)

man: $(READY)
	$(PIP) -r requirements-release.txt
	mkdir -p build
	$(BIN)/python release/man_page.py build/chunkwise.1
	@echo "build/chunkwise.1"

check: lint types layers

fmt: $(LINTED)
	$(BIN)/ruff check --fix src tests benchmarks demo docs release
	$(BIN)/ruff format src tests benchmarks demo docs release

lint: $(LINTED)
	$(BIN)/ruff check src tests benchmarks demo docs release
	$(BIN)/ruff format --check src tests benchmarks demo docs release

types: $(LINTED)
	$(BIN)/mypy

layers: $(LINTED)
	$(BIN)/lint-imports

bench: $(TESTED)
	$(BIN)/python benchmarks/jobs.py
	$(BIN)/python benchmarks/compare.py

docs: $(READY)
	$(PIP) -r requirements-docs.txt
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
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
