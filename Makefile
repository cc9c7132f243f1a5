# `make demo` and `make test` do all the set-up themselves, in .venv, on a fresh machine.
#   PYTHON=python3.12      the Python that .venv is made with
#   VENV=.venv-312         another place for it
#   GPU_PYTHON=python3     the Python of `make gpu` and `make bench`, if its torch has a GPU

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup demo test thorough ranges lint format fuzz golden gpu bench clean

VENV ?= .venv
BIN := $(VENV)/bin
JOBS ?= 2
GPU_PYTHON ?= python3

TRY = import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] $(1))
SEARCH = for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c '$(call TRY,<= (3, 14))' 2>/dev/null && echo $$p && exit; done; \
	python3 -c '$(call TRY,)' 2>/dev/null && echo python3
PYTHON ?= $(shell $(SEARCH))

# A Python that was asked for, and an environment of another one: say so rather than use the other.
VERSION = 'import sys; print("%d.%d" % sys.version_info[:2])'
ifeq ($(origin PYTHON),command line)
MADE_WITH := $(shell $(BIN)/python -c $(VERSION) 2>/dev/null)
ASKED_FOR := $(shell $(PYTHON) -c $(VERSION) 2>/dev/null)
ifneq ($(MADE_WITH),$(ASKED_FOR))
ifneq ($(MADE_WITH),)
$(error $(VENV) holds Python $(MADE_WITH), not $(ASKED_FOR): add VENV=.venv-$(ASKED_FOR), or remove $(VENV))
endif
endif
endif

# Set-up is done once for a place and the content of these files; the stamp is written last.
KEY := $(shell (pwd; cat pyproject.toml constraints.txt) | cksum | cut -d ' ' -f 1)
STAMP := $(VENV)/.installed-$(KEY)
# Downloads show how far they are: a bar in a terminal, a line for each file elsewhere.
# What setuptools has to say about editable installations is of no use here.
PIP = PYTHONWARNINGS=ignore $(BIN)/python -m pip install --no-input --disable-pip-version-check -c constraints.txt \
	--progress-bar $$(if test -t 1; then echo on; else echo off; fi)

help:
	@echo 'make demo     a program, its derivation, its kernel, and a run on this machine'
	@echo 'make test     lint, types, and the tests that need no GPU, in less than ten minutes on two cores'
	@echo 'make thorough the same, and the tests marked slow: more cases of what make test has'
	@echo 'make ranges   the oldest and the newest versions that are allowed, each in an environment'
	@echo 'make gpu      the tests that need an NVIDIA GPU'
	@echo 'make bench    measure, beside what torch offers'
	@echo 'make fuzz     10000 random programs: kernels and gradients, and each step of each derivation'
	@echo 'make golden   rewrite the golden files of the tests; read the diff'
	@echo 'make lint     ruff and mypy only;  make format   let ruff rewrite the files'
	@echo 'make clean    remove caches and builds (the environment $(VENV) stays)'

setup: $(STAMP)

ifeq ($(shell test -x $(BIN)/python && echo yes),)
.PHONY: $(STAMP)
endif

$(STAMP):
	@if ! { $(BIN)/python -c '$(call TRY,)' && \
	        { $(BIN)/python -m pip --version || $(BIN)/python -m ensurepip; }; } >/dev/null 2>&1; then \
	    python="$(PYTHON)"; \
	    if ! "$$python" -c '$(call TRY,)' >/dev/null 2>&1; then \
	        echo 'error: monocomp needs Python 3.11 to 3.14 with venv and pip' >&2; \
	        echo '  found none; tried: '"$${python:-python3, python3.14 to python3.11}" >&2; \
	        echo '  help: install one (Debian: apt install python3-venv) or name it: make PYTHON=...' >&2; \
	        exit 2; \
	    fi; \
	    echo "set-up: making $(VENV) with $$("$$python" --version)"; \
	    "$$python" -m venv --clear $(VENV); \
	fi
	@echo 'set-up: installing monocomp and its pinned requirements into $(VENV) (minutes, the first time)'
	@$(PIP) pip setuptools wheel
	@$(PIP) --no-build-isolation -e '.[test]'
	@rm -f $(VENV)/.installed-*
	@touch $@

demo: $(STAMP)
	@$(BIN)/python -m monocomp demo

test: lint
	@echo 'test: pytest'
	@$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal -m 'not gpu and not slow'

thorough: lint
	@echo 'thorough: pytest, slow tests included'
	@$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal -m 'not gpu'

# Downloads gigabytes into .venv-least and .venv-newest; ENDS=newest for one of them.
ranges:
	@$(PYTHON) -m tests.ranges $(ENDS)

lint: $(STAMP)
	@echo 'lint: ruff, mypy'
	@$(BIN)/python -m ruff check --quiet
	@$(BIN)/python -m ruff format --check --quiet || { \
	    echo 'help: make format'; exit 1; }
	@$(BIN)/python -m mypy --no-error-summary --num-workers $(JOBS)

format: $(STAMP)
	@$(BIN)/python -m ruff check --fix --quiet; $(BIN)/python -m ruff format

# FUZZ random programs, each with a seed of its own, then every step of the derivations of others in
# parts, where a failure is shrunk, and its part's SEED finds it again.
FUZZ ?= 10000
SEED ?= $(shell date +%s)
fuzz: $(STAMP)
	@echo 'fuzz: $(FUZZ) programs, SEED=$(SEED)'
	@$(BIN)/python -m tests.random_programs $(FUZZ) --processes $(JOBS) --seed $(SEED)
	@MONOCOMP_FUZZ=$(FUZZ) MONOCOMP_SEED=$(SEED) $(BIN)/python -m pytest -q -n $(JOBS) \
	    --dist worksteal tests/terms/test_printer.py tests/tile/test_text.py \
	    -k test_random_programs --timeout=0

golden: $(STAMP)
	@$(BIN)/python -m pytest -q --update-golden

# GPU machines come with a torch of their own: that one is used where it works, then .venv's.
HAS_GPU = import sys, torch; sys.exit(not torch.cuda.is_available())
NEEDS = import hypothesis, lark, pytest, pytest_timeout, sympy, triton
PICK = if ! $(GPU_PYTHON) -c '$(HAS_GPU)' 2>/dev/null; then $(MAKE) -s --no-print-directory setup; \
	python=$(BIN)/python; else python=$(GPU_PYTHON); fi

gpu:
	@$(PICK); \
	if ! $$python -c '$(HAS_GPU)'; then \
	    echo 'error: no GPU for torch in $(GPU_PYTHON) nor in $(VENV)' >&2; \
	    echo '  help: name a Python whose torch has one: make gpu GPU_PYTHON=...' >&2; exit 2; \
	fi; \
	if ! $$python -c '$(NEEDS)'; then \
	    echo "help: $$python -m pip install hypothesis lark pytest pytest-timeout sympy" >&2; exit 2; \
	fi; \
	echo "gpu: pytest -m gpu, with $$($$python -c 'import sys; print(sys.executable)')"; \
	several=$$($$python -c 'import xdist' 2>/dev/null && printf %s '-n 8 --dist worksteal -p no:benchmark'); \
	$$python -m pytest -q -m gpu $$several tests/gpu

bench:
	@$(PICK); $$python -m benchmarks.run

clean:
	@rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find monocomp/ rewrites/ backends/ tests/ benchmarks/ -name __pycache__ -prune -exec rm -rf {} +
