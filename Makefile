# `make reproduce` and `make test` set up everything they need in .venv and are quick the second time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# several test processes share the cores: one BLAS thread each
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: reproduce test quick browser slow lint docs clean

reproduce: $(READY)
	$(BIN)/onestride reproduce

test: $(READY) lint browser
	$(ONE_THREAD) $(BIN)/pytest -n auto --dist worksteal

# the loop of a developer: no browser, no program, no experiment, no long simulation
quick: $(READY)
	$(ONE_THREAD) $(BIN)/pytest -n auto --dist worksteal -m "not slow and not long"

# the tests of the explorer drive a real browser; without one they are skipped
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null \
	|| { echo "No chromium here; trying to install Debian's."; (apt-get update && apt-get install -y chromium) >/dev/null 2>&1; } \
	|| echo "chromium could not be installed: the tests of the explorer that need a browser will be skipped."

slow: $(READY)
	$(ONE_THREAD) $(BIN)/pytest -n auto -m slow

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

# the pages, warnings as errors; the scripts of the gallery run
docs: $(READY)
	$(ONE_THREAD) $(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $(READY)

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis
