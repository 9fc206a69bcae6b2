"""Estimates: every number of every (judge, model) with its interval, and pooled rates.

Reads prompts/ and scores/; writes estimates/duplicates.{json,csv} and estimates/cells/{judge}/{model}.json.
docs/reference/statistics.md explains the numbers.
"""

from refusal_eval.workflow import analyses_stage as analyses


rule near_duplicates:
    """Find the prompts that stand in several splits."""
    input:
        prompts=collect(f"{RESULTS}/prompts/{{split}}.jsonl", split=SPLITS),
    output:
        json=f"{RESULTS}/estimates/duplicates.json",
        csv=f"{RESULTS}/estimates/duplicates.csv",
    log:
        f"{LOGS}/near_duplicates.log",
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        duplicates=lambda wildcards: analyses.duplicates(study),
        code=code_version(ROOT / "scripts" / "find_duplicates.py"),
    message:
        "Looking for prompts that occur in several splits"
    script:
        "../../scripts/find_duplicates.py"


rule estimates:
    """Estimate all that one judge says of one model."""
    input:
        cells=collect(f"{RESULTS}/scores/{{{{judge}}}}/{{{{model}}}}/{{split}}.parquet", split=SPLITS),
        duplicates=f"{RESULTS}/estimates/duplicates.json",
    output:
        f"{RESULTS}/estimates/cells/{{judge}}/{{model}}.json",
    log:
        f"{LOGS}/estimates/{{judge}}/{{model}}.log",
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        study=lambda wildcards: analyses.estimates(study, wildcards),
        code=code_version(ROOT / "scripts" / "make_estimates.py"),
    message:
        "Estimating numbers of {wildcards.model} under judge {wildcards.judge}"
    script:
        "../../scripts/make_estimates.py"
