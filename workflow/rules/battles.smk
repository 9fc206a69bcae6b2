"""Battles of published answers: what refusals cost where people choose between two answers; one job for a study.

Reads the scores of models with `recorded: battles` and the prompts, which hold the preferences; writes
estimates/battles.json.
"""


rule battles:
    """Measure win rates by class of answer, the penalty of a refusal, and moderation bias."""
    input:
        scores=lambda wildcards: [
            f"{RESULTS}/scores/{'/'.join(cell)}.parquet" for cell in analyses.battles(study)["cells"]
        ],
        prompts=collect(f"{RESULTS}/prompts/{{split}}.jsonl", split=SPLITS),
    output:
        f"{RESULTS}/estimates/battles.json",
    log:
        f"{LOGS}/battles.log",
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        study=lambda wildcards: analyses.battles(study),
        code=code_version(ROOT / "scripts" / "measure_battles.py"),
    message:
        "Measuring what refusals cost in battles"
    script:
        "../../scripts/measure_battles.py"
