# `make reproduce` and `make test` set up everything they need in .venv and are quick the second time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# several test processes share the cores: one BLAS thread each
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: reproduce test slow lint docs clean

reproduce: $(READY)
	$(BIN)/onestride reproduce

test: $(READY) lint
	$(ONE_THREAD) $(BIN)/pytest -n auto

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
