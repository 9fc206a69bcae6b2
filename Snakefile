"""refusal-eval: how language models refuse, from prompts to figures.

The study is validated before any job runs and written back into `config`. The rules stand in workflow/rules/, one file
per stage: data -> weights -> generate -> judge -> score -> report.
"""

import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.utils import min_version

min_version("9.27")

ROOT = Path(workflow.snakefile).parent
if not (ROOT / "scripts" / "refusal_eval").is_dir():  # Snakemake fetches single files of an address
    raise WorkflowError(
        "This workflow cannot run from an address: its rules need the scripts, catalogue and environments of the whole "
        "repository. Clone the repository, run `make setup` in the clone, and run snakemake there, or give the path "
        "of the clone's Snakefile to `module:`."
    )
sys.path.insert(0, str(ROOT / "scripts"))


# A study given with --configfile replaces the demo; Snakemake would merge the two.
if not workflow.overwrite_configfiles:

    configfile: ROOT / "config" / "config.yaml"


include: "workflow/rules/common.smk"


# Not used by `make setup`'s environments, and untried: it names what a containerised deployment would start from.
container: "docker://vllm/vllm-openai:v0.32.0"


report: "workflow/report/workflow.rst"


wildcard_constraints:
    model=any_of(config["models"]),
    split=any_of(config["splits"]),
    judge=any_of(config["judges"]),
    gold=any_of(config["gold"]),
    engine=any_of(config["engine_entries"]),
    batch=any_of([*generation.batches, *judging.batches]),
    load=r"\d+-of-\d+-[0-9a-f]{8}",


include: "workflow/rules/data.smk"
include: "workflow/rules/weights.smk"
include: "workflow/rules/generate.smk"
include: "workflow/rules/recorded.smk"
include: "workflow/rules/judge.smk"
include: "workflow/rules/score.smk"
include: "workflow/rules/estimates.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/judge_cards.smk"
include: "workflow/rules/compare.smk"
include: "workflow/rules/results.smk"
include: "workflow/rules/tradeoff.smk"
include: "workflow/rules/corrected.smk"
include: "workflow/rules/floors.smk"


rule all:
    """Tables, figures, judge cards and the manifest of the study, and what they are made from."""
    default_target: True
    input:
        reporting.in_between,
        reporting.targets,
        drawing.targets,
        judge_cards.targets,
        comparisons.targets,
        results.targets,
        estimating.targets,
        tradeoff.targets,
        correcting.targets,
    localrule: True


rule fetch:
    """All that needs the internet, for machines without: rows, tokenizers, weights and adapters."""
    input:
        data.fetched_rows(),
        weights.tokenizer_manifests(),
        weights.weights_manifests(),
        weights.adapter_manifests(),
    localrule: True


onstart:
    record_study(config, STUDY_FILE)
    record_run(workflow, RESULTS, placement.earlier_jobs())
