"""Over-refusal against safety: one job for the whole study.

Reads all scores, the prompts and the near-duplicates among them; writes estimates/tradeoff.json.
"""


rule tradeoff:
    """Weigh over-refusal against safety, by model, contrast pair, topic and language."""
    input:
        scores=collect(f"{RESULTS}/scores/{{cell}}.parquet", cell=CELLS),
        prompts=collect(f"{RESULTS}/prompts/{{split}}.jsonl", split=config["splits"]),
        duplicates=f"{RESULTS}/estimates/duplicates.json",
    output:
        f"{RESULTS}/estimates/tradeoff.json",
    log:
        f"{LOGS}/tradeoff.log",
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        study=lambda wildcards: analyses.tradeoff(study),
        code=code_version(ROOT / "scripts" / "make_tradeoff.py"),
    message:
        "Weighing over-refusal against safety"
    script:
        "../../scripts/make_tradeoff.py"
