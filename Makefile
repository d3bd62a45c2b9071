# The verbs of the project. They set up all that they need in .venv, and `make test-all` also in .venv-clients and .venv-cluster.

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

# The interpreter: PYTHON= if you name one, otherwise python3 or the newest supported one on PATH. An environment of
# another one is removed before make looks at its files.
PYTHON ?=
ifneq ($(MAKECMDGOALS),clean)
CHOSEN := $(shell for python in python3 python python3.14 python3.13 python3.12 python3.11; do \
	$$python -c "" 2>/dev/null && exec $$python tools/choose_python.py $(VENV) $(PYTHON); done)
$(if $(CHOSEN),,$(error Voicewright needs Python 3.11 to 3.14))
endif

.PHONY: run test test-all pythons check format bench soak proof autobahn fuzz audit cluster tour oracle golden lock clean

run: $(VENV)/.ready
	@PORT=$(PORT) $(BIN)/python app.py $(ARGS)

# Processes that share the tests (tests/conftest.py says how); JOBS=0 runs them all in one. Most of what `make test` runs
# waits now and then, for a socket or a process, so that two more than there are cores keep those busy.
JOBS ?= logical
test: JOBS = $(shell $(CHOSEN) -c 'import os; print(2 + os.cpu_count())')
PYTEST = $(BIN)/python -m pytest -n $(JOBS) --maxprocesses 4 --dist loadfile --no-loadscope-reorder

# Each process that a test starts would compile the whole of the code anew.
unexport PYTHONDONTWRITEBYTECODE

# Tensors are tiny, and a second thread of torch's only takes a core from the other process.
test test-all: export OMP_NUM_THREADS = 1

# Several runtime processes behind one port (docs/scaling.md): make cluster ARGS="--replicas 2"
cluster: $(CLUSTER)/.ready
	@$(CLUSTER)/bin/python -m runtime.cli cluster --port $(PORT) $(ARGS)

# Every behaviour once. TESTS= names a part instead (paths, or pytest's -m and -k), and of that all is run.
test: $(VENV)/.ready-dev
	$(PYTEST) $(if $(TESTS),$(TESTS),-m "not thorough" --hypothesis-profile=quick)

# The rest, and only the rest: what shows the same again on other devices, at the studio's port, with other people's
# clients, or with ten times the examples. Together with `make test` it is every test there is. THIRD=0, 1 and 2
# run a third of the files each.
test-all: $(VENV)/.ready-dev $(CLIENTS)/.ready $(CLUSTER)/.ready
	$(PYTEST) -m "thorough or examples" $(if $(THIRD),--third $(THIRD)) $(TESTS)

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

# The pictures of the README, as the page looks now.
tour: $(VENV)/.ready-dev
	VOICEWRIGHT_TOUR=docs/images $(BIN)/python -m pytest tests/browser/test_tour.py

# The reference implementation in an environment of its own, and the golden files that it makes.
oracle:
	bash tests/golden/oracle_env.sh

golden: oracle
	.venv-oracle/bin/python -m tests.golden.make_golden

# Pin everything anew from pyproject.toml. torch brings its own CUDA packages where its build needs them.
lock: $(VENV)/.ready-dev
	$(BIN)/python tools/lock.py

clean:
	rm -rf $(VENV) $(CLIENTS) $(CLUSTER) $(AUTOBAHN) $(FUZZ) $(AUDIT) $(JS)/node_modules build dist artifacts .pytest_cache .mypy_cache .ruff_cache

$(VENV)/bin/python:
	$(CHOSEN) -m venv $(VENV)

$(VENV)/.ready: requirements.lock pyproject.toml clients/python/pyproject.toml runtime/device/native/products.cpp | $(VENV)/bin/python
	@$(BIN)/python tools/install.py "$(TORCH)" "$(TORCH_INDEX)"
	@$(BIN)/python -m runtime.device.native
	@touch $@

# A build of torch for cards has brought the Triton that it goes with.
$(VENV)/.ready-dev: requirements-dev.lock $(VENV)/.ready
	grep -v -e '^torch==' $$($(BIN)/python -c 'import torch; print("-e ^triton==" * bool(torch.version.cuda))') \
		requirements-dev.lock > $(VENV)/without-torch.txt
	$(BIN)/pip install --quiet -r $(VENV)/without-torch.txt
	@touch $@

# What checks the page's JavaScript. Nothing of it runs while it is installed.
$(JS)/node_modules/.ready: $(JS)/package-lock.json $(VENV)/.ready-dev
	cd $(JS) && PATH="$(CURDIR)/$(BIN):$$PATH" npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

# Other people's clients, whose pins are not ours. Every pin is in a lock: nothing is resolved.
$(CLIENTS)/.ready: requirements-clients.lock tests/clients/package-lock.json | $(VENV)/.ready-dev
	$(BIN)/python -m venv --clear $(CLIENTS)
	$(CLIENTS)/bin/pip install --quiet --no-deps --no-compile -r requirements-clients.lock
	cp tests/clients/package.json tests/clients/package-lock.json $(CLIENTS)
	cd $(CLIENTS) && PATH="$(CURDIR)/$(BIN):$$PATH" npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

# Ray and what it needs, before all that .venv has. Its pins go with ours, but .venv is to stay as users have it.
$(CLUSTER)/.ready: requirements-cluster.lock | $(VENV)/.ready
	$(BIN)/python -m venv --clear --without-pip $(CLUSTER)
	$(BIN)/pip --python $(CLUSTER)/bin/python install --quiet --no-deps --no-compile -r requirements-cluster.lock
	$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
		> $$($(CLUSTER)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/voicewright.pth
	@touch $@

# Its cases are Python 2 and are turned into Python 3 in this environment; nothing of them is kept elsewhere.
$(AUTOBAHN)/.ready: requirements-autobahn.lock tests/autobahn/convert.py | $(VENV)/bin/python
	$(BIN)/python -m venv --clear $(AUTOBAHN)
	$(AUTOBAHN)/bin/pip install --quiet --no-deps -r requirements-autobahn.lock
	$(AUTOBAHN)/bin/pip download --quiet --no-deps --no-binary :all: --dest $(AUTOBAHN)/sdist autobahntestsuite==25.10.1
	$(AUTOBAHN)/bin/python -W ignore tests/autobahn/convert.py $(AUTOBAHN)/sdist/autobahntestsuite-25.10.1.tar.gz $(AUTOBAHN)/cases
	@touch $@

# Beside our own packages, and not among them: it is asked for by hand only.
$(FUZZ)/.ready: | $(VENV)/bin/python
	$(BIN)/pip install --quiet --target $(FUZZ)/lib atheris==3.0.0
	@touch $@

$(AUDIT)/.ready: requirements-audit.lock | $(VENV)/bin/python
	$(BIN)/python -m venv --clear $(AUDIT)
	$(AUDIT)/bin/pip install --quiet --no-deps -r requirements-audit.lock
	@touch $@
