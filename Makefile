# Needs Python 3.11 or newer, git and make; everything else goes into .venv. The second run is quick.
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python3.14 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
PY := $(VENV)/bin/python
SETUP := pyproject.toml setup.cfg

.PHONY: demo test test-full test-interop lint format types bench clean help
.DEFAULT_GOAL := help

help:
	@echo "make demo       roll out Echo and a remote CartPole, each on a server of its own"
	@echo "make test       run the tests (PYTEST_ARGS='-k echo' chooses some)"
	@echo "make test-full  run them all, the long ones too"
	@echo "make test-interop  run those with the packages of OpenEnv and MCP, which it installs aside"
	@echo "make lint       check the code's form;  make format  mend it"
	@echo "make types      check the types"
	@echo "make bench      measure (see benchmarks/README.md)"
	@echo "make clean      remove what was built"

$(VENV)/.made:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer was not found; name it: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.demo: $(VENV)/.made $(SETUP)
	$(PY) -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.test: $(VENV)/.made $(SETUP)
	$(PY) -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@ $(VENV)/.demo

$(VENV)/.dev: $(VENV)/.made $(SETUP)
	$(PY) -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ $(VENV)/.test $(VENV)/.demo

demo: $(VENV)/.demo
	$(PY) -m openenv_gym.demo

test: $(VENV)/.test
	$(PY) -m pytest $(PYTEST_ARGS)

test-full: $(VENV)/.test
	OPENENV_HYPOTHESIS=deep $(PY) -m pytest -m "full or not full" --timeout 3600 $(PYTEST_ARGS)

test-interop: $(VENV)/.test
	OPENENV_CI=1 $(PY) -m pytest -p no:cacheprovider -m full tests/interop $(PYTEST_ARGS)

lint: $(VENV)/.dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

format: $(VENV)/.dev
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

types: $(VENV)/.dev
	$(VENV)/bin/mypy

bench: $(VENV)/.test
	$(PY) -m benchmarks.bench_import
	$(PY) -m benchmarks.bench_step
	$(PY) -m benchmarks.bench_vector
	$(PY) -m benchmarks.bench_typed
	$(PY) -m benchmarks.soak

clean:
	rm -rf build dist *.egg-info envs/*/build envs/*/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis MUJOCO_LOG.TXT
	find . -name __pycache__ -not -path "./$(VENV)/*" -prune -exec rm -rf {} +
