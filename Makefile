# `make demo` and `make test` work on a fresh machine: each makes the virtual environment it needs.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP_FLAGS := --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo docs test coverage test-slow lint compiler graphviz java npm chromium screenshots benchmark results clean

KERNELS := hatch_build.py src/socratic/kernels/sources.py $(wildcard src/socratic/kernels/cpp/*)
$(VENV)/.installed: pyproject.toml experiments/pyproject.toml constraints.txt $(KERNELS) | compiler
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(PIP_FLAGS) torch numpy
	$(BIN)/python -m pip install $(PIP_FLAGS) --editable ".[dev]" --editable "./experiments[dev]"
	# The oracle of the corruptions asks for an OpenCV with windows, which needs system libraries; the one without does.
	$(BIN)/python -m pip install $(PIP_FLAGS) --no-deps imagecorruptions-imaug
	# cirkit asks for an older SciPy than the one tested with, and works with both.
	$(BIN)/python -m pip install $(PIP_FLAGS) --no-deps libcirkit
	touch $@

# Clusters are large downloads, which only slow tests need; so are MLflow and other people's clients of the service.
$(VENV)/.engines: $(VENV)/.installed
	$(BIN)/python -m pip install $(PIP_FLAGS) --editable ".[dask,mlflow,ray,serve-tests,spark]"
	touch $@

$(VENV)/.benchmarks: $(VENV)/.installed
	$(BIN)/python -m pip install $(PIP_FLAGS) --editable ".[benchmarks]"
	touch $@

$(VENV)/.docs: $(VENV)/.installed
	$(BIN)/python -m pip install $(PIP_FLAGS) --editable ".[docs]"
	touch $@

demo: $(VENV)/.installed
	$(BIN)/socratic demo

# The site, with every notebook run and a model that runs in a page of its own: python -m http.server -d docs/_build/html
docs: $(VENV)/.docs graphviz npm
	OMP_NUM_THREADS=1 $(BIN)/python docs/live/build.py docs/_build/html/live
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet docs docs/_build/html

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Kernels need a compiler, pictures are rendered by Graphviz's program, Spark runs on Java, pages are tested in Chromium, and npm has the runtime of
# the live one; where they cannot be installed, the tests that need them are skipped. $(call installed,PROGRAM,PACKAGE)
APT = $(if $(filter 0,$(shell id -u)),,sudo -n) apt-get -q -y
installed = command -v $(1) > /dev/null \
	|| $(APT) install --no-install-recommends $(2) > /dev/null 2>&1 \
	|| { $(APT) update && $(APT) install --no-install-recommends $(2); } > /dev/null 2>&1 \
	|| echo "$(2) could not be installed: tests that need it will be skipped"
compiler:
	@$(call installed,c++,g++)
graphviz:
	@$(call installed,dot,graphviz)
java:
	@$(call installed,java,default-jre-headless)
chromium:
	@$(call installed,chromium,chromium fonts-dejavu-core)
npm:
	@$(call installed,npm,npm)

test: lint graphviz
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow" --numprocesses=2

# Tests take half as long again while their lines are counted.
coverage: $(VENV)/.installed
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow" --numprocesses=2 --cov --cov-report=term

test-slow: $(VENV)/.engines $(VENV)/.docs graphviz java chromium npm
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow --numprocesses=2

# The pictures of the playground in the documentation, from its tests.
screenshots: $(VENV)/.engines chromium
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/browser --screenshots docs/images

benchmark: $(VENV)/.benchmarks
	$(BIN)/python -m benchmarks.peers

# The results page of the documentation, from the records of the experiments.
results: $(VENV)/.installed
	$(BIN)/socratic-experiments report benchmarks/results/experiments/* \
		--markdown docs/results.md --note benchmarks/results/images.md

clean:
	rm -rf $(VENV) docs/_build .coverage .mypy_cache .pytest_cache .ruff_cache
