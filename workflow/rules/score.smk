"""Scores: from answers and verdicts to numbers per prompt and per cell, and the judges' cards.

Reads prompts/, answers/ and verdicts/; writes scores/{judge}/{model}/{split}.parquet (a row per sample) and
judge_cards/{judge}/{gold}.json. Of GPU jobs only those that wait for activations of prompts chosen by c(x) may depend on anything here.
"""

from refusal_eval.workflow import scoring


rule score:
    """Score one (judge, model, split)."""
    input:
        prompts=f"{RESULTS}/prompts/{{split}}.jsonl",
        answers=f"{RESULTS}/answers/{{model}}/{{split}}.jsonl",
        verdicts=f"{RESULTS}/verdicts/{{judge}}/{{model}}/{{split}}.jsonl",
        published=protocol_scores,
        asked=lambda wildcards: generation.changed_prompts(study, wildcards.model, wildcards.split),
        placed=lambda wildcards: generation.placed_requests(study, wildcards.model, wildcards.split),
    output:
        f"{RESULTS}/scores/{{judge}}/{{model}}/{{split}}.parquet",
    log:
        f"{LOGS}/score/{{judge}}/{{model}}/{{split}}.log",
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        cell=lambda wildcards: scoring.cell(study, *cell_of(wildcards)),
        code=code_version(ROOT / "scripts" / "score_cell.py"),
    message:
        "Scoring {wildcards.model} on {wildcards.split} by {wildcards.judge}"
    script:
        "../../scripts/score_cell.py"


rule judge_card:
    """Measure one judge on one gold set."""
    input:
        gold=f"{RESULTS}/gold/{{gold}}.jsonl",
        verdicts=f"{RESULTS}/verdicts/{{judge}}/gold/{{gold}}.jsonl",
        calibration=foreign_calibration,
    output:
        f"{RESULTS}/judge_cards/{{judge}}/{{gold}}.json",
    log:
        f"{LOGS}/judge_card/{{judge}}/{{gold}}.log",
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=1000,
        runtime=30,
    params:
        card=lambda wildcards: scoring.card(study, wildcards.judge, wildcards.gold),
        code=code_version(ROOT / "scripts" / "make_judge_card.py"),
    message:
        "Measuring judge {wildcards.judge} on {wildcards.gold}"
    script:
        "../../scripts/make_judge_card.py"
