# Every target sets up .venv by itself, and reuses it while nothing has changed.
#
#   PYTHON=python3.12   the interpreter to make .venv with (default: the newest that is found)
#   ARGS="..."          further arguments for the example of `run`, or for pytest in `test`
#   BENCH=name          the one benchmark that `bench` runs

PYTHON ?=
ARGS ?=
BENCH ?=
PY := .venv/bin/python

.DEFAULT_GOAL := help
.PHONY: help run test lint format bench setup clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

run: setup ## stream a text through WordCount on Spark, and scale it meanwhile (ARGS="--readings 5")
	@$(PY) examples/wordcount_spark.py $(ARGS)

test: lint ## lint, then every test (ARGS="-k name" for some of them)
	@$(PY) -m pytest $(or $(ARGS),-n 3)

lint: setup ## ruff and mypy
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy

format: setup ## rewrite the source in the house style
	@$(PY) -m ruff check --fix-only .
	@$(PY) -m ruff format .

bench: setup ## every benchmark, one line per bar (BENCH=name for one of them)
	@$(PY) -m tests.bench $(BENCH)

setup: ## make .venv and install what the project needs
	@PYTHON='$(PYTHON)' sh .ci/setup

clean: ## remove .venv and everything else that was generated
	@rm -rf .venv .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist hailer.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
