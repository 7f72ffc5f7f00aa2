# Everything runs in a virtual environment of its own; PYTHON chooses the interpreter (3.11 or newer).
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SHARED ?= ../shared
# Two more than there are cores: many tests wait for real processes.
WORKERS ?= $(shell expr $$(nproc 2>/dev/null || echo 2) + 2)

# Images of containers set this to stay small. Here it would compile all code again in each of a thousand processes.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo check test pytest unit lint test-lowest test-frameworks test-deploy test-slow test-distributed test-alerts test-faults fuzz acceptance \
	bench bars equality mutants docs deploy dist supply audit pins proto clean help acceptance-fleet acceptance-fleet-faults

help:               ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 16

demo: $(VENV)/.collector  ## a collector, four sample agents and their scores, live
	$(BIN)/agenteval demo

check: $(VENV)/.dev       ## style, types, import directions and the unit tests, within a minute
	$(MAKE) --no-print-directory --jobs 2 lint unit

unit: $(VENV)/.dev
	$(BIN)/pytest -n $(WORKERS) --dist loadfile tests/unit

test: $(VENV)/.dev        ## what every commit must pass: check, and the integration tests; within four minutes on two cores
	$(MAKE) --no-print-directory --jobs 2 lint pytest

pytest: $(VENV)/.dev
	$(BIN)/pytest -n $(WORKERS) --dist loadfile

lint: $(VENV)/.dev        ## style, types, import directions
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

test-lowest: $(VENV)/.dev ## the tests with the oldest versions that pyproject.toml allows
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(VENV)-lowest
	$(BIN)/uv pip install --quiet --python $(VENV)-lowest --resolution lowest-direct --editable '.[collector]'
	$(BIN)/uv pip install --quiet --python $(VENV)-lowest --group dev
	$(VENV)-lowest/bin/pytest -n auto --dist loadfile tests/unit
	$(VENV)-lowest/bin/pytest -n auto --dist loadfile -m 'databases and not distributed' tests/integration

test-frameworks: $(VENV)/.dev ## the example of each page in docs/frameworks, in environments of their own
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/pytest -n auto -m frameworks tests/frameworks

test-deploy: $(VENV)/.dev ## what is below deploy/, by linters and schemas
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group deploy
	$(BIN)/pytest tests/integration/test_deploy.py tests/integration/test_deploy_fleet.py

test-slow: $(VENV)/.dev   ## simulations, a real Prometheus, a real browser (skipped where one is not installed)
	$(BIN)/pytest -n auto --dist loadfile -m slow --timeout 600 tests/unit tests/integration tests/slow

test-distributed: $(VENV)/.dev ## what holds of every store, and a collector, on a real PostgreSQL and a real Kafka (skipped where none is installed)
	$(BIN)/pytest -n auto --dist loadfile -m distributed --timeout 600 tests/unit tests/integration tests/faults

test-alerts: $(VENV)/.dev ## every alert reaches a webhook once and resolves: real Prometheus and Alertmanager, within 6 minutes
	$(BIN)/pytest -m slow --timeout 600 tests/alerts

test-faults: $(VENV)/.dev ## FAULTS=40 random faults on a loaded collector, and everything acknowledged is looked for
	$(BIN)/pytest -m slow tests/faults

# Python 3.11 to 3.13 on Linux, where atheris has wheels; elsewhere the test is skipped and says so.
fuzz: $(VENV)/.dev        ## property tests with many inputs, a minute of coverage-guided fuzzing; FUZZ_SECONDS=600 for longer
	$(BIN)/pytest -n auto --dist loadfile -m 'hypothesis and not slow' --hypothesis-profile thorough tests/unit tests/integration
	-$(BIN)/python -m pip install --quiet --only-binary :all: atheris
	$(BIN)/pytest -m slow --timeout 900 tests/slow/test_fuzz.py

acceptance: $(VENV)/.dev  ## the checks from outside, where $(SHARED) is there
	$(BIN)/python $(SHARED)/acceptance/corpus_check.py $(SHARED)/corpus
	$(BIN)/python $(SHARED)/acceptance/vectors_check.py $(SHARED)/vectors
	$(BIN)/python $(SHARED)/acceptance/taubench_check.py $(SHARED)/taubench/gpt-4o-airline-tasks-00-24.json 0.31 0.193333 0.17 0.16
	$(BIN)/python $(SHARED)/acceptance/faults_check.py $(SHARED)/taubench/gpt-4o-airline-tasks-00-24.json
	$(BIN)/python $(SHARED)/acceptance/plain_senders_check.py
	$(BIN)/python $(SHARED)/acceptance/crash_check.py 20

# Each data folder of a check has topics and a database of its own; SHAPE=roles has a process for each part of the work.
SHAPE ?= all
FLEET = $(BIN)/python -m tests.acceptance.run $(SHAPE)
TAUBENCH = $(SHARED)/taubench/gpt-4o-airline-tasks-00-24.json

acceptance-fleet: $(VENV)/.dev ## the same recordings, tables and faults over a real Kafka and a real PostgreSQL; SHAPE=roles
	$(FLEET) $(SHARED)/acceptance/corpus_check.py $(SHARED)/corpus \
		, $(SHARED)/acceptance/taubench_check.py $(TAUBENCH) 0.31 0.193333 0.17 0.16 , $(SHARED)/acceptance/faults_check.py $(TAUBENCH)

acceptance-fleet-faults: $(VENV)/.dev ## the same kills and slow senders over these; up to 15 minutes on a busy machine
	$(FLEET) $(SHARED)/acceptance/plain_senders_check.py , $(SHARED)/acceptance/crash_check.py 20

bench: $(VENV)/.dev       ## ratios against named baselines, see benchmarks/README.md
	for script in client_cpu collector_cpu latency memory read_trace reliability detectors verdict_latency; do $(BIN)/python -m benchmarks.$$script || exit 1; done

bars: $(VENV)/.dev        ## the few of these ratios that a change must not raise, within three minutes; needs valgrind
	$(BIN)/python -m benchmarks.bars

equality: $(VENV)/.dev    ## what users see of this tree and of BASE=REVISION: replays, API, series; INSTRUCTIONS=1 counts them too (valgrind)
	$(BIN)/python -m tests.support.equality --shared $(SHARED) against $(BASE) $(if $(INSTRUCTIONS),--instructions)

mutants: $(VENV)/.dev     ## defects that are written down, each put into a copy of the tree: a test must fail for each; within 4 minutes
	$(BIN)/python -m tests.support.mutants

docs: $(VENV)/.dev        ## docs/instrumentations.md from the recordings, the pictures and the API's examples from the sample agents
	$(BIN)/python -m tests.support.instrumentations
	$(BIN)/python -m tests.support.pictures
	$(BIN)/python -m tests.support.api_examples

deploy: $(VENV)/.dev      ## dashboards, and alert rules for Grafana and Kubernetes, from their sources
	$(BIN)/python -m deploy.builder

# The date of the commit goes into the archives: whoever builds it again gets the same bytes.
dist: $(VENV)/.dev        ## wheel and source distribution in dist/, built twice; each installed by itself and tried by the demo
	rm -rf dist
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group supply
	export SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || echo 315532800) \
		&& $(BIN)/python -m build && $(BIN)/python -m tests.support.distributions dist
	for file in dist/*.whl dist/*.tar.gz; do \
		$(BIN)/python -m venv --clear $(VENV)-dist \
		&& $(VENV)-dist/bin/python -m pip install --quiet "$$file[collector]" \
		&& (cd /tmp && $(abspath $(VENV))-dist/bin/agenteval demo --once --json) | $(BIN)/python -m json.tool >/dev/null \
		&& echo "$$file: installed, and the demo ran" || exit 1; \
	done

supply: dist              ## the bill of materials of what dist has installed, and its licences
	$(BIN)/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml \
		--output-file dist/otel-agenteval.cdx.json $(VENV)-dist
	$(BIN)/python -m tests.support.licences dist/otel-agenteval.cdx.json

audit: $(VENV)/.dev       ## known vulnerabilities of what continuous integration installs; asks pypi.org
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group supply
	$(BIN)/pip-audit --strict --no-deps --requirement constraints.txt

pins: $(VENV)/.dev        ## constraints.txt: the newest versions that fit together, for every system and Python that the project allows
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --no-header --no-annotate --no-emit-index-url \
		--output-file constraints.txt pyproject.toml --extra collector --extra postgres --extra kafka --extra mcp --extra notify --extra parquet --group dev --group frames --group axe --group deploy --group supply

# An old generator, so that the stubs load with every protobuf and grpcio that the project allows.
proto:                    ## generate the stubs of our proto files again
	$(PYTHON) -m venv $(VENV)-proto
	$(VENV)-proto/bin/pip install --quiet grpcio-tools==1.49.1 'setuptools<70'
	$(VENV)-proto/bin/python -m grpc_tools.protoc -Iproto --python_out=. --pyi_out=. --grpc_python_out=. \
		proto/otel_agenteval/proto/v1/evaluation.proto
	$(VENV)-proto/bin/python -m grpc_tools.protoc -Iproto --python_out=. --pyi_out=. \
		proto/otel_agenteval/proto/v1/frame.proto proto/otel_agenteval/proto/v1/assembled.proto

clean:                    ## remove what was installed and cached
	rm -rf $(VENV) $(VENV)-proto $(VENV)-lowest $(VENV)-frameworks $(VENV)-dist .mypy_cache .pytest_cache .ruff_cache .hypothesis dist

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.collector: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[collector]'
	@touch $@

# What is imported is compiled then: most of what is installed never is.
$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[collector,mcp,notify,parquet]' --group dev --group frames --group axe
	@touch $@ $(VENV)/.collector
