# `make reproduce` and `make test` set up everything they need in .venv and are quick the second time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# what `make devices` installs; torch==2.13.0, or the path of a wheel, where a CPU build is at hand
TORCH ?= torch
# tests of the simulation that need it
ON_DEVICES := devices features normals shifted spectrum together
# what `make seeds` runs, first:last
SEEDS ?= 1:100
# several test processes share the cores: one BLAS thread each
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
# one process more than cores: some tests wait for a browser or a program
PARALLEL := -n $$(( $$(getconf _NPROCESSORS_ONLN) + 1 )) --dist worksteal
# compiled modules and tests are kept, wherever that is switched off: half of what a process takes to start
export PYTHONDONTWRITEBYTECODE :=
INSTALL := install --quiet --disable-pip-version-check

.PHONY: reproduce test quick shapes oldest newest lock devices browser seeds slow lint style types docs wheel paper address clean

reproduce: $(READY)
	$(BIN)/onestride reproduce

# the tests; `make lint` reads the sources, style and types
test: $(READY) browser
	$(ONE_THREAD) $(BIN)/pytest $(PARALLEL)

# the loop of a developer: no browser, no program, no experiment, no long simulation
quick: $(READY)
	$(ONE_THREAD) $(BIN)/pytest -n auto --dist worksteal -m "not slow and not long"

# the same with the shapes in signatures checked at run time, a sixth slower
shapes: $(READY)
	ONESTRIDE_CHECK_SHAPES=1 $(ONE_THREAD) $(BIN)/pytest $(PARALLEL) -m "not slow and not long"

# the tests with the oldest release of every dependency that pyproject.toml allows; an old release may call what a newer
# one beside it deprecates, which is not our error
oldest: browser
	$(PYTHON) -m venv --clear .venv-oldest
	.venv-oldest/bin/pip $(INSTALL) --constraint tests/oldest.txt --editable '.[dev]'
	$(ONE_THREAD) .venv-oldest/bin/pytest $(PARALLEL) -W ignore::DeprecationWarning

# the tests with the newest releases
newest: browser
	$(PYTHON) -m venv --clear .venv-newest
	.venv-newest/bin/pip $(INSTALL) --editable '.[dev]'
	$(ONE_THREAD) .venv-newest/bin/pytest $(PARALLEL)

# the newest releases become those of `make test`; names as PyPI writes them
lock:
	$(PYTHON) -m venv --clear .venv-newest
	.venv-newest/bin/pip $(INSTALL) --editable '.[dev]'
	{ sed -n '/^#/p' tests/locked.txt; .venv-newest/bin/pip freeze --exclude-editable | tr 'A-Z_' 'a-z-' | LC_ALL=C sort; } > .venv-newest/locked.txt
	mv .venv-newest/locked.txt tests/locked.txt

# the tests that need torch or array-API dispatch, skipped elsewhere (those of a GPU run where there is one)
devices:
	$(PYTHON) -m venv .venv-devices
	.venv-devices/bin/pip $(INSTALL) '$(TORCH)' --editable '.[dev]'
	$(ONE_THREAD) SCIPY_ARRAY_API=1 .venv-devices/bin/pytest -n auto tests/estimator $(addprefix tests/simulation/test_,$(addsuffix .py,$(ON_DEVICES)))

# the tests of the explorer drive a real browser; without one they are skipped. In a terminal it asks before it installs one for the
# whole system; elsewhere (a container, a workflow) it says that it does. BROWSER=no never does.
browser:
	@command -v chromium-headless-shell >/dev/null || command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || { \
	answer=$(BROWSER); \
	if [ -z "$$answer" ] && [ -t 0 ]; then printf "No chromium here. Install Debian's for the whole system (apt-get)? [y/N] "; read answer; \
	elif [ -z "$$answer" ]; then answer=y; fi; \
	case "$$answer" in [yY]*) echo "Installing Debian's chromium-headless-shell for the whole system."; (apt-get update && apt-get install -y chromium-headless-shell) >/dev/null 2>&1;; *) false;; esac; } \
	|| echo "no chromium: the tests of the explorer that need a browser will be skipped."

# the statistical tests for a hundred other seeds, each counted against its stated false-alarm rate; hours on two cores
seeds: $(READY)
	$(BIN)/python benchmarks/any_seed.py --seeds $(SEEDS) --out any_seed.json

slow: $(READY)
	$(ONE_THREAD) $(BIN)/pytest -n auto -m slow

lint: style types

style: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# again only when a source, a stub or the settings have changed
types: $(VENV)/.typed

$(VENV)/.typed: $(READY) $(shell find src typings -name '*.py' -o -name '*.pyi')
	$(BIN)/pyright
	@touch $@

# the pages, warnings as errors; the scripts of the gallery run
docs: $(READY)
	$(ONE_THREAD) $(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

# wheel and sdist, and the wheel tried alone in an empty environment with the base dependencies
wheel:
	rm -rf dist .venv-wheel
	$(PYTHON) -m venv .venv-wheel
	.venv-wheel/bin/pip $(INSTALL) build
	.venv-wheel/bin/python -m build --outdir dist .
	$(PYTHON) -m venv --clear .venv-wheel
	.venv-wheel/bin/pip $(INSTALL) dist/*.whl
	@ls -l dist
	.venv-wheel/bin/python benchmarks/wheel.py

# the article: figures from stored data, then the PDF
paper: $(READY)
	$(BIN)/python paper/build.py

# pyproject.toml decides the address of the repository; this writes another one wherever it stands: make address TO=OWNER/NAME
address:
	@test -n "$(TO)" || { echo "make address TO=OWNER/NAME"; exit 2; }
	from=$$(sed -n 's#^Repository = "https://github.com/\(.*\)"#\1#p' pyproject.toml); \
	git grep -l "github[a-z]*\.com/$$from" -- ':!*.pdf' | xargs perl -pi -e "s#(github[a-z]*\.com/)$$from#\$$1$(TO)#g"
	@echo "Now: make paper, whose PDF names it, too."

$(READY): pyproject.toml tests/locked.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip $(INSTALL) --constraint tests/locked.txt --editable '.[dev]'
	touch $(READY)

clean:
	rm -rf $(VENV) .venv-oldest .venv-newest .venv-devices .venv-wheel dist .pytest_cache .ruff_cache .hypothesis
