# Every target makes the environment it needs; run again, it starts at once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(BIN)/python
# Two stamps, so that the demo does not wait for the development tools.
READY := $(VENV)/.ready
DEV := $(VENV)/.dev
BENCH := .benchmarks-venv

ENGINES := .engines-venv

.PHONY: help demo test test-slow test-service test-service-slow test-browser screenshot test-engines test-clients coverage check format docs bench bench-hot-path bench-service bench-postgres bench-catalogue bakeoff accuracy clean

help:
	@echo "make demo      Figure 1 of the paper with few runs: a table, a figure, the claims (about a minute, after the installation)"
	@echo "make test      lint, types, layers and tests (a few minutes)"
	@echo "make test-slow only the slow tests, with more repetitions for sharper statistical bounds (about 5 minutes)"
	@echo "make test-service-slow  the same with more kills, more steps and more requests (10 minutes)"
	@echo "make test-service  kill, starve and attack a real service (a few minutes)"
	@echo "make test-clients  the TypeScript client, and Azure Personalizer's own clients, against a real service (2 minutes)"
	@echo "make test-browser  use the dashboard in a real Chromium (installs it if there is none; 2 minutes)"
	@echo "make screenshot    the picture of the dashboard in the documentation (2 minutes)"
	@echo "make coverage  which lines the tests run, with the kernels interpreted (tens of minutes)"
	@echo "make test-engines  the same work on real Dask, Ray and Spark on this machine (installs them, and Java if there is none)"
	@echo "make check     lint, types and layers only"
	@echo "make format    let ruff format and fix what it can"
	@echo "make docs      write the reference from the docstrings, and build the site into site/"
	@echo "make bench     time rolin beside other libraries (installs them; several minutes)"
	@echo "make bench-hot-path  time Bandit.decide beside an earlier commit, and compare the decisions (2 minutes)"
	@echo "make bench-service   CPU time of decisions over HTTP beside an echo (4 minutes)"
	@echo "make bench-postgres  journals in PostgreSQL beside SQLite (2 minutes)"
	@echo "make bench-catalogue a million arms of the service, in a folder and in PostgreSQL (10 minutes)"
	@echo "make bakeoff   rewards of rolin, with nothing tuned, beside other libraries (hours; DATA=folder with ml-1m and obd)"
	@echo "make accuracy  a million updates against extended precision, d up to 1000 (15 minutes)"
	@echo "make clean     remove environments and what was built"

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "rolin needs Python 3.11 or later, this is " + sys.version)'
	$(PYTHON) -m venv $(VENV)

$(READY): pyproject.toml | $(VENV)/bin/python
	$(RUN) -m pip install --quiet --disable-pip-version-check -e ".[cli]"
	@touch $@

$(DEV): requirements-dev.txt $(READY)
	$(RUN) -m pip install --quiet --disable-pip-version-check -e ".[client,postgres,service,telemetry]" -r requirements-dev.txt
	@touch $@

demo: $(READY)
	$(BIN)/rolin reproduce synthetic --runs 8 --out out/demo

check: $(DEV)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# Two workers on two cores: more threads of BLAS would only get in each other's way.
PYTEST := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses 2

test: check
	$(PYTEST) -m "not slow and not service and not browser"

test-slow: $(DEV)
	$(PYTEST) -m "slow and not service and not browser"

# Without nginx, the test of its configuration is skipped.
test-service: $(DEV)
	@command -v nginx > /dev/null || (apt-get update -qq && apt-get install -y -qq --no-install-recommends nginx-light) || true
	$(PYTEST) -m "service and not slow"

test-service-slow: $(DEV)
	$(PYTEST) -m "service and slow"

CHROMIUM := (command -v chromium && command -v chromedriver) > /dev/null || \
	(apt-get update -qq && apt-get install -y -qq chromium chromium-driver) || \
	(echo "the dashboard is tested in Chromium: install chromium and chromedriver" && exit 1)

# One worker: two browsers would wait for each other.
test-browser: $(DEV)
	@$(CHROMIUM)
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/pytest -m browser

screenshot: $(DEV)
	@$(CHROMIUM)
	$(RUN) docs/screenshot.py docs/assets/dashboard.png

# Coverage sees only Python, so the kernels are interpreted. What a test does after two seconds is skipped (see
# tests/conftest.py). Compiled kernels do not warn of numbers that overflow, which they check for.
coverage: $(DEV)
	NUMBA_DISABLE_JIT=1 $(PYTEST) -m "not slow and not service and not browser" -W ignore::RuntimeWarning --cov=rolin --cov-report=term-missing:skip-covered

# Spark runs on Java 17 or later, which pip does not bring.
$(ENGINES)/.ready: pyproject.toml tests-engines/requirements.txt
	@command -v java > /dev/null || (apt-get update -qq && apt-get install -y -qq openjdk-17-jre-headless) || \
		(echo "make test-engines needs Java 17 or later, for Spark" && exit 1)
	$(PYTHON) -m venv $(ENGINES)
	$(ENGINES)/bin/python -m pip install --quiet --disable-pip-version-check -e ".[all]" -r tests-engines/requirements.txt
	@touch $@

test-engines: $(ENGINES)/.ready
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(ENGINES)/bin/pytest tests-engines

# Our client for Node.js, and clients that others wrote. Versions are pinned, so there is no lock file.
$(VENV)/.clients: tests-clients/requirements.txt tests-clients/package.json clients/typescript/package.json $(DEV)
	@command -v npm > /dev/null || (apt-get update -qq && apt-get install -y -qq nodejs npm) || \
		(echo "make test-clients needs Node.js 18 or later, with npm" && exit 1)
	$(RUN) -m pip install --quiet --disable-pip-version-check -r tests-clients/requirements.txt
	for folder in tests-clients clients/typescript; do \
		npm install --prefix $$folder --no-package-lock --no-audit --no-fund --loglevel=error || exit 1; done
	@touch $@

test-clients: $(VENV)/.clients
	PYTHONPATH=tests OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/pytest tests-clients

format: $(DEV)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(DEV)
	$(RUN) docs/build.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

$(BENCH)/.ready: pyproject.toml benchmarks/requirements.txt
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check -e ".[all]" -r benchmarks/requirements.txt
	@touch $@

bench: $(BENCH)/.ready
	$(BENCH)/bin/python benchmarks/run.py --markdown out/benchmarks.md

bench-hot-path: $(READY)
	$(RUN) benchmarks/hot_path.py

bench-service: $(DEV)
	$(RUN) benchmarks/service.py

bench-postgres: $(DEV)
	OPENBLAS_NUM_THREADS=1 $(RUN) benchmarks/postgres.py

bench-catalogue: $(DEV)
	OPENBLAS_NUM_THREADS=1 $(RUN) benchmarks/service_catalogue.py

# Interrupted, it resumes. Without DATA, the worlds that need MovieLens or the Open Bandit Dataset are left out.
DATA ?=
bakeoff: $(BENCH)/.ready
	$(BENCH)/bin/python benchmarks/bakeoff/run.py $(if $(DATA),--data "$(DATA)") --markdown out/bakeoff.md

accuracy: $(DEV)
	$(RUN) benchmarks/accuracy.py

clean:
	rm -rf $(VENV) $(BENCH) $(ENGINES) tests-clients/node_modules clients/typescript/node_modules clients/typescript/dist site out build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
