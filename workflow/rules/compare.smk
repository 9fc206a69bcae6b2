"""Comparisons of models, and of judges, on the same prompts.

Reads scores/; writes estimates/comparisons.json.
"""

COMPARED = analyses.compared(study)


rule compare:
    """Compare the pairs that the study names, with tests corrected over each family."""
    input:
        scores=collect(f"{RESULTS}/scores/{{cell}}.parquet", cell=COMPARED),
        duplicates=[f"{RESULTS}/estimates/duplicates.json"] if analyses.pools(study) else [],
    output:
        f"{RESULTS}/estimates/comparisons.json",
    log:
        f"{LOGS}/compare.log",
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        study=lambda wildcards: analyses.comparisons(study),
        code=code_version(ROOT / "scripts" / "make_comparisons.py"),
    message:
        "Comparing on the same prompts"
    script:
        "../../scripts/make_comparisons.py"
