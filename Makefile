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

# Which torch: the locked one from your package index, or your own choice (README, "Real checkpoints").
TORCH ?=
TORCH_INDEX ?=

# The interpreter: PYTHON= if you name one, otherwise python3 or the newest supported one on PATH. An environment that
# it cannot use is removed before make looks at its files.
PYTHON ?=
ifneq ($(MAKECMDGOALS),clean)
CHOSEN := $(shell for python in python3 python python3.14 python3.13 python3.12 python3.11; do \
	$$python -c "" 2>/dev/null && exec $$python tools/choose_python.py $(VENV) $(PYTHON); done)
$(if $(CHOSEN),,$(error Voicewright needs Python 3.11 to 3.14))
endif

.PHONY: run test test-all pythons check format bench soak proof autobahn fuzz audit cluster tour oracle golden lock clean

run: $(VENV)/.ready
	@PORT=$(PORT) $(BIN)/python app.py $(ARGS)

# Processes that share the tests (see tests/conftest.py); JOBS=0 runs them all in one. Most tests of `make test` wait
# for a socket or a process at times, so that two processes more than cores keep the cores busy.
JOBS ?= logical
test: JOBS = $(shell $(CHOSEN) -c 'import os; print(2 + os.cpu_count())')
PYTEST = $(BIN)/python -m pytest -n $(JOBS) --maxprocesses 4 --dist loadfile --no-loadscope-reorder

# Otherwise each process that a test starts compiles all code again.
unexport PYTHONDONTWRITEBYTECODE

# Tensors are tiny: a second thread of torch only takes a core from another process.
test test-all: export OMP_NUM_THREADS = 1

# Several runtime processes behind one port (docs/scaling.md): make cluster ARGS="--replicas 2"
cluster: $(CLUSTER)/.ready
	@$(CLUSTER)/bin/python -m runtime.cli cluster --port $(PORT) $(ARGS)

# Every behaviour once. TESTS= names a part instead (paths, or pytest's -m and -k), which runs with its thorough tests.
test: $(VENV)/.ready-dev
	$(PYTEST) $(if $(TESTS),$(TESTS),-m "not thorough" --hypothesis-profile=quick)

# All other tests: the same behaviour on other devices, at the studio's port, with other people's clients, or with ten
# times the examples. GROUP=0 to 3 run a quarter of the files each.
test-all: $(VENV)/.ready-dev $(CLIENTS)/.ready $(CLUSTER)/.ready
	$(PYTEST) -m "thorough or examples" $(if $(GROUP),--group $(GROUP)) $(TESTS)

# The tests on every supported interpreter on PATH, each in an environment of its own; by hand, before a release.
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

# Minutes of abuse at twice the capacity, every stream compared with its solo run: make soak ARGS="--minutes 15"
soak: $(VENV)/.ready
	$(BIN)/python -m benchmarks.soak $(ARGS)

# The figures of docs/reliability.md, written to artifacts/proof.json; hours. ARGS=--short: minutes, only printed; --only E11: one.
proof: $(VENV)/.ready-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.proof $(ARGS)

# Autobahn's 301 cases of WebSockets against our port, with the figure of T9; a minute. ARGS="7.1.5": one of them
autobahn: $(VENV)/.ready-dev $(AUTOBAHN)/.ready
	$(BIN)/python -m tests.autobahn $(AUTOBAHN) $(ARGS)

# Fuzzing by coverage of every target of tests/fuzz/targets.py, together a million executions, and the figure of P1; hours.
# TARGET="voice file": one of them; RUNS=20000: so many together.
TARGET ?=
RUNS ?= 1000000
fuzz: $(VENV)/.ready-dev $(FUZZ)/.ready
	PYTHONPATH=$(FUZZ)/lib OMP_NUM_THREADS=1 $(BIN)/python -W ignore -m tests.fuzz $(FUZZ)/corpus --runs $(RUNS) \
		$(if $(TARGET),--target "$(TARGET)") $(ARGS)

# Known vulnerabilities of every locked package. It needs the network.
audit: $(AUDIT)/.ready
	$(BIN)/python tools/audit.py $(AUDIT)/bin/pip-audit $(ARGS)

# Take the README's pictures of the page again.
tour: $(VENV)/.ready-dev
	VOICEWRIGHT_TOUR=docs/images $(BIN)/python -m pytest tests/browser/test_tour.py

# The reference implementation in its own environment, and the golden files that it writes.
oracle:
	bash tests/golden/oracle_env.sh

golden: oracle
	.venv-oracle/bin/python -m tests.golden.make_golden

# Write the locks again from pyproject.toml. torch brings its own CUDA packages if its build needs them.
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

# A build of torch for cards has already installed the Triton that it needs.
$(VENV)/.ready-dev: requirements-dev.lock $(VENV)/.ready
	grep -v -e '^torch==' $$($(BIN)/python -c 'import torch; print("-e ^triton==" * bool(torch.version.cuda))') \
		requirements-dev.lock > $(VENV)/without-torch.txt
	$(BIN)/pip install --quiet -r $(VENV)/without-torch.txt
	@touch $@

# Checks of the page's JavaScript. No package runs a script at its installation.
$(JS)/node_modules/.ready: $(JS)/package-lock.json $(VENV)/.ready-dev
	cd $(JS) && PATH="$(CURDIR)/$(BIN):$$PATH" npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

# Other people's clients. Every pin is in their own lock: nothing is resolved.
$(CLIENTS)/.ready: requirements-clients.lock tests/clients/package-lock.json | $(VENV)/.ready-dev
	$(BIN)/python -m venv --clear $(CLIENTS)
	$(CLIENTS)/bin/pip install --quiet --no-deps --no-compile -r requirements-clients.lock
	cp tests/clients/package.json tests/clients/package-lock.json $(CLIENTS)
	cd $(CLIENTS) && PATH="$(CURDIR)/$(BIN):$$PATH" npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

# Ray and its dependencies, on top of the packages of .venv, which stays as users have it.
$(CLUSTER)/.ready: requirements-cluster.lock | $(VENV)/.ready
	$(BIN)/python -m venv --clear --without-pip $(CLUSTER)
	$(BIN)/pip --python $(CLUSTER)/bin/python install --quiet --no-deps --no-compile -r requirements-cluster.lock
	$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
		> $$($(CLUSTER)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/voicewright.pth
	@touch $@

# Its cases are Python 2; they are converted to Python 3 in this environment.
$(AUTOBAHN)/.ready: requirements-autobahn.lock tests/autobahn/convert.py | $(VENV)/bin/python
	$(BIN)/python -m venv --clear $(AUTOBAHN)
	$(AUTOBAHN)/bin/pip install --quiet --no-deps -r requirements-autobahn.lock
	$(AUTOBAHN)/bin/pip download --quiet --no-deps --no-binary :all: --dest $(AUTOBAHN)/sdist autobahntestsuite==25.10.1
	$(AUTOBAHN)/bin/python -W ignore tests/autobahn/convert.py $(AUTOBAHN)/sdist/autobahntestsuite-25.10.1.tar.gz $(AUTOBAHN)/cases
	@touch $@

# The fuzzer is installed next to our packages, not among them, since only `make fuzz` needs it.
$(FUZZ)/.ready: | $(VENV)/bin/python
	$(BIN)/pip install --quiet --target $(FUZZ)/lib atheris==3.0.0
	@touch $@

$(AUDIT)/.ready: requirements-audit.lock | $(VENV)/bin/python
	$(BIN)/python -m venv --clear $(AUDIT)
	$(AUDIT)/bin/pip install --quiet --no-deps -r requirements-audit.lock
	@touch $@
