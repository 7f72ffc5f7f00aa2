# Everything runs in a virtual environment of its own; PYTHON chooses the interpreter (3.11 or newer).
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SHARED ?= ../shared

# Images of containers set this to stay small. Here it would compile all code again in each of a thousand processes.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo check test lint test-lowest test-frameworks test-slow fuzz acceptance bench docs dist proto clean help

help:               ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 16

demo: $(VENV)/.collector  ## a collector, four sample agents and their scores, live
	$(BIN)/agenteval demo

check: $(VENV)/.dev lint  ## style, types, import directions and the unit tests, within a minute
	$(BIN)/pytest -n auto --dist loadfile --hypothesis-profile quick tests/unit

test: $(VENV)/.dev lint   ## what every commit must pass: check, and the integration tests
	$(BIN)/pytest -n auto --dist loadfile

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

test-frameworks: $(VENV)/.dev ## the guard in LangGraph and OpenAI Agents, in an environment of its own
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(VENV)-frameworks
	$(BIN)/uv pip install --quiet --python $(VENV)-frameworks --editable . --group frameworks
	$(VENV)-frameworks/bin/pytest tests/integration/test_examples.py

test-slow: $(VENV)/.dev   ## crashes, a real Prometheus, a real browser (each skipped where it is not installed)
	$(BIN)/pytest -m slow --timeout 600

# Python 3.11 to 3.13 on Linux, where atheris has wheels; elsewhere the test is skipped and says so.
fuzz: $(VENV)/.dev        ## a minute of coverage-guided fuzzing of the reader; FUZZ_SECONDS=600 for longer
	-$(BIN)/python -m pip install --quiet --only-binary :all: atheris
	$(BIN)/pytest -m slow --timeout 900 tests/slow/test_fuzz.py

acceptance: $(VENV)/.dev  ## the checks from outside, where $(SHARED) is there
	$(BIN)/python $(SHARED)/acceptance/corpus_check.py $(SHARED)/corpus
	$(BIN)/python $(SHARED)/acceptance/vectors_check.py $(SHARED)/vectors
	$(BIN)/python $(SHARED)/acceptance/taubench_check.py $(SHARED)/taubench/gpt-4o-airline-tasks-00-24.json 0.31 0.193333 0.17 0.16
	$(BIN)/python $(SHARED)/acceptance/faults_check.py $(SHARED)/taubench/gpt-4o-airline-tasks-00-24.json
	$(BIN)/python $(SHARED)/acceptance/plain_senders_check.py
	$(BIN)/python $(SHARED)/acceptance/crash_check.py 20

bench: $(VENV)/.dev       ## ratios against named baselines, see benchmarks/README.md
	for script in client_cpu collector_cpu latency memory read_trace reliability detectors verdict_latency; do $(BIN)/python -m benchmarks.$$script || exit 1; done

docs: $(VENV)/.dev        ## docs/instrumentations.md from the recordings, the pictures from the sample agents
	$(BIN)/python -m tests.support.instrumentations
	$(BIN)/python -m tests.support.pictures

dist: $(VENV)/.dev        ## wheel and source distribution in dist/, each installed by itself and tried by the demo
	rm -rf dist
	$(BIN)/python -m pip install --quiet build
	$(BIN)/python -m build
	$(BIN)/python -m tests.support.distributions dist
	for file in dist/*.whl dist/*.tar.gz; do \
		$(BIN)/python -m venv --clear $(VENV)-dist \
		&& $(VENV)-dist/bin/python -m pip install --quiet "$$file[collector]" \
		&& (cd /tmp && $(abspath $(VENV))-dist/bin/agenteval demo --once --json) | $(BIN)/python -m json.tool >/dev/null \
		&& echo "$$file: installed, and the demo ran" || exit 1; \
	done

# An old generator, so that the stubs load with every protobuf and grpcio that the project allows.
proto:                    ## generate the stubs of our proto files again
	$(PYTHON) -m venv $(VENV)-proto
	$(VENV)-proto/bin/pip install --quiet grpcio-tools==1.49.1 'setuptools<70'
	$(VENV)-proto/bin/python -m grpc_tools.protoc -Iproto --python_out=. --pyi_out=. --grpc_python_out=. \
		proto/otel_agenteval/proto/v1/evaluation.proto
	$(VENV)-proto/bin/python -m grpc_tools.protoc -Iproto --python_out=. --pyi_out=. \
		proto/otel_agenteval/proto/v1/frame.proto

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

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[collector]' --group dev
	@touch $@ $(VENV)/.collector
