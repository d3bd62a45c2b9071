# The project's commands. They install into .venv; `make test-all` also uses .venv-clients and .venv-cluster.

PORT ?= 7860
VENV := .venv
BIN := $(VENV)/bin
CLIENTS := .venv-clients
CLUSTER := .venv-cluster
AUTOBAHN := .venv-autobahn
FUZZ := .venv-fuzz
AUDIT := .venv-audit
JS := tools/js

# Build of torch to install. By default, it is the locked version (README, "Real checkpoints").
TORCH ?=
TORCH_INDEX ?=

# Python interpreter: PYTHON if it is set, otherwise python3 or the newest supported version on PATH. choose_python.py
# removes a .venv that this interpreter cannot use, before make looks at its files.
PYTHON ?=
ifneq ($(MAKECMDGOALS),clean)
CHOSEN := $(shell for python in python3 python python3.14 python3.13 python3.12 python3.11; do \
	$$python -c "" 2>/dev/null && exec $$python tools/choose_python.py $(VENV) $(PYTHON); done)
$(if $(CHOSEN),,$(error Voicewright needs Python 3.11 to 3.14))
endif

.PHONY: run test test-all pythons check format bench soak proof autobahn fuzz audit cluster tour oracle golden lock clean

run: $(VENV)/.ready
	@PORT=$(PORT) $(BIN)/python app.py $(ARGS)

# Number of test processes (see tests/conftest.py). JOBS=0 runs all tests in one process. Most tests of `make test`
# sometimes wait for a socket or a process, so two more processes than cores keep the cores busy.
JOBS ?= logical
test: JOBS = $(shell $(CHOSEN) -c 'import os; print(2 + os.cpu_count())')
PYTEST = $(BIN)/python -m pytest -n $(JOBS) --maxprocesses 4 --dist loadfile --no-loadscope-reorder

# Allow .pyc files. Otherwise each process that a test starts compiles all modules again.
unexport PYTHONDONTWRITEBYTECODE

# Use one torch thread per process. The tensors are tiny, and other processes need the cores.
test test-all: export OMP_NUM_THREADS = 1

# Run several runtime processes behind one port (docs/scaling.md): make cluster ARGS="--replicas 2"
cluster: $(CLUSTER)/.ready
	@$(CLUSTER)/bin/python -m runtime.cli cluster --port $(PORT) $(ARGS)

# Test every behaviour once. TESTS selects tests (paths, or pytest's -m and -k) and then includes thorough tests.
test: $(VENV)/.ready-dev
	$(PYTEST) $(if $(TESTS),$(TESTS),-m "not thorough" --hypothesis-profile=quick)

# Run all other tests: the same behaviour on other devices, at the studio's port, or with clients of other projects, and
# ten times as many random examples. GROUP=0 to GROUP=3 each run a quarter of the files.
test-all: $(VENV)/.ready-dev $(CLIENTS)/.ready $(CLUSTER)/.ready
	$(PYTEST) -m "thorough or examples" $(if $(GROUP),--group $(GROUP)) $(TESTS)

# Run `make test` with every supported Python on PATH, each in a separate environment. Do this before a release.
pythons:
	for python in $$($(CHOSEN) tools/choose_python.py --all); do echo "== $$python"; \
		$(MAKE) test PYTHON=$$python VENV=.venv-$$(basename $$python) || exit 1; done

check: $(VENV)/.ready-dev $(JS)/node_modules/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/ruff check --target-version py314 --select E9,F,B012 .
	$(BIN)/mypy
	$(BIN)/mypy --python-version 3.14
	$(BIN)/node $(JS)/check.js
	$(BIN)/node $(JS)/node_modules/eslint/bin/eslint.js --config $(JS)/eslint.config.js assets/js clients/js tests/js $(JS)

format: $(VENV)/.ready-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.ready
	$(BIN)/voicewright bench

# Run a load of twice the capacity, and compare every stream with a separate run: make soak ARGS="--minutes 15"
soak: $(VENV)/.ready
	$(BIN)/python -m benchmarks.soak $(ARGS)

# Measure the figures of docs/reliability.md, and write them to artifacts/proof.json. This takes hours. ARGS=--short
# takes minutes and only prints the figures. ARGS="--only E11" measures one promise.
proof: $(VENV)/.ready-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.proof $(ARGS)

# Run the 301 WebSocket cases of Autobahn, and record the figure of promise T9. ARGS="7.1.5" runs one case.
autobahn: $(VENV)/.ready-dev $(AUTOBAHN)/.ready
	$(BIN)/python -m tests.autobahn $(AUTOBAHN) $(ARGS)

# Fuzz every target of tests/fuzz/targets.py, guided by coverage, and record the figure of promise P1. This takes hours.
# TARGET="voice file" selects one target. RUNS is the total number of executions.
TARGET ?=
RUNS ?= 1000000
fuzz: $(VENV)/.ready-dev $(FUZZ)/.ready
	PYTHONPATH=$(FUZZ)/lib OMP_NUM_THREADS=1 $(BIN)/python -W ignore -m tests.fuzz $(FUZZ)/corpus --runs $(RUNS) \
		$(if $(TARGET),--target "$(TARGET)") $(ARGS)

# Report known vulnerabilities of every locked package. This needs the network.
audit: $(AUDIT)/.ready
	$(BIN)/python tools/audit.py $(AUDIT)/bin/pip-audit $(ARGS)

# Make the README's screenshots of the page again.
tour: $(VENV)/.ready-dev
	VOICEWRIGHT_TOUR=docs/images $(BIN)/python -m pytest tests/browser/test_tour.py

# Install the official package in its own environment. `make golden` then generates the golden files with it.
oracle:
	bash tests/golden/oracle_env.sh

golden: oracle
	.venv-oracle/bin/python -m tests.golden.make_golden

# Update the lock files from pyproject.toml. They contain no CUDA packages: a CUDA build of torch installs its own.
lock: $(VENV)/.ready-dev
	$(BIN)/python tools/lock.py

clean:
	rm -rf $(VENV) $(CLIENTS) $(CLUSTER) $(AUTOBAHN) $(FUZZ) $(AUDIT) $(JS)/node_modules build dist artifacts .pytest_cache .mypy_cache .ruff_cache

$(VENV)/bin/python:
	$(CHOSEN) -m venv $(VENV)

$(VENV)/.ready: requirements.lock pyproject.toml clients/python/pyproject.toml $(wildcard runtime/device/native/*.cpp runtime/device/native/*.h) | $(VENV)/bin/python
	@$(BIN)/python tools/install.py "$(TORCH)" "$(TORCH_INDEX)"
	@$(BIN)/python -m runtime.device.native
	@touch $@

# A CUDA build of torch has already installed the version of Triton that it needs.
$(VENV)/.ready-dev: requirements-dev.lock $(VENV)/.ready
	grep -v -e '^torch==' $$($(BIN)/python -c 'import torch; print("-e ^triton==" * bool(torch.version.cuda))') \
		requirements-dev.lock > $(VENV)/without-torch.txt
	$(BIN)/pip install --quiet -r $(VENV)/without-torch.txt
	@touch $@

# Tools that check the page's JavaScript. `--ignore-scripts` prevents packages from running scripts at installation.
$(JS)/node_modules/.ready: $(JS)/package-lock.json $(VENV)/.ready-dev
	cd $(JS) && PATH="$(CURDIR)/$(BIN):$$PATH" npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

# Clients of other projects, which have their own lock files. pip resolves no dependencies.
$(CLIENTS)/.ready: requirements-clients.lock tests/clients/package-lock.json | $(VENV)/.ready-dev
	$(BIN)/python -m venv --clear $(CLIENTS)
	$(CLIENTS)/bin/pip install --quiet --no-deps --no-compile -r requirements-clients.lock
	cp tests/clients/package.json tests/clients/package-lock.json $(CLIENTS)
	cd $(CLIENTS) && PATH="$(CURDIR)/$(BIN):$$PATH" npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

# Ray and its dependencies. A .pth file adds the packages of .venv, so that .venv itself contains no Ray.
$(CLUSTER)/.ready: requirements-cluster.lock | $(VENV)/.ready
	$(BIN)/python -m venv --clear --without-pip $(CLUSTER)
	$(BIN)/pip --python $(CLUSTER)/bin/python install --quiet --no-deps --no-compile -r requirements-cluster.lock
	$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
		> $$($(CLUSTER)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/voicewright.pth
	@touch $@

# Autobahn's test cases are Python 2, so they are converted to Python 3 in this environment.
$(AUTOBAHN)/.ready: requirements-autobahn.lock tests/autobahn/convert.py | $(VENV)/bin/python
	$(BIN)/python -m venv --clear $(AUTOBAHN)
	$(AUTOBAHN)/bin/pip install --quiet --no-deps -r requirements-autobahn.lock
	$(AUTOBAHN)/bin/pip download --quiet --no-deps --no-binary :all: --dest $(AUTOBAHN)/sdist autobahntestsuite==25.10.1
	$(AUTOBAHN)/bin/python -W ignore tests/autobahn/convert.py $(AUTOBAHN)/sdist/autobahntestsuite-25.10.1.tar.gz $(AUTOBAHN)/cases
	@touch $@

# The fuzzer is not installed into .venv, because only `make fuzz` needs it.
$(FUZZ)/.ready: | $(VENV)/bin/python
	$(BIN)/pip install --quiet --target $(FUZZ)/lib atheris==3.0.0
	@touch $@

$(AUDIT)/.ready: requirements-audit.lock | $(VENV)/bin/python
	$(BIN)/python -m venv --clear $(AUDIT)
	$(AUDIT)/bin/pip install --quiet --no-deps -r requirements-audit.lock
	@touch $@
