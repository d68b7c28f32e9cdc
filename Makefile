# `make demo` and `make test` work on a fresh machine: each makes the virtual environment it needs.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP_FLAGS := --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test test-slow lint benchmark clean

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(PIP_FLAGS) torch numpy
	$(BIN)/python -m pip install $(PIP_FLAGS) --editable ".[dev]"
	touch $@

$(VENV)/.benchmarks: $(VENV)/.installed
	$(BIN)/python -m pip install $(PIP_FLAGS) --editable ".[benchmarks]"
	touch $@

demo: $(VENV)/.installed
	$(BIN)/python examples/digits.py

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest -m "not slow" --cov --cov-report=term

test-slow: $(VENV)/.installed
	$(BIN)/python -m pytest -m slow

benchmark: $(VENV)/.benchmarks
	$(BIN)/python -m benchmarks.run

clean:
	rm -rf $(VENV) .coverage .mypy_cache .pytest_cache .ruff_cache
