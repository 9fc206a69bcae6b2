"""Analyses of all cells: comparisons, the trade-off, corrected rates and what else the study has; one job each.

Reads what each names: scores/, prompts/, gold/ and more; writes estimates/{analysis}.json.
"""

from refusal_eval.workflow.analysis import measuring_module

ANALYSES_MADE = study.analyses


rule analysis:
    """Make one analysis of the study."""
    input:
        unpack(lambda wildcards: ANALYSES_MADE[wildcards.analysis].inputs()),
    output:
        f"{RESULTS}/estimates/{{analysis}}.json",
    log:
        f"{LOGS}/analysis/{{analysis}}.log",
    wildcard_constraints:
        analysis=any_of(ANALYSES_MADE),
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=lambda wildcards: ANALYSES_MADE[wildcards.analysis].megabytes(),
        runtime=60,
    params:
        study=lambda wildcards: ANALYSES_MADE[wildcards.analysis].params(),
        code=lambda wildcards: code_version(ROOT / "scripts" / "make_analysis.py", measuring_module(wildcards.analysis)),
    message:
        "Analysis: {wildcards.analysis}"
    script:
        "../../scripts/make_analysis.py"
