"""Scores: from answers and verdicts to numbers per prompt and per cell, and the judges' cards.

Reads prompts/, answers/ and verdicts/; writes scores/{judge}/{model}/{split}.parquet (a row per sample),
judge_cards/{judge}/{gold}.json and, where a study asks, published/ (what the published code makes of the same
responses). Of GPU jobs only those of steered models may depend on anything here: directions fitted by c(x).
"""

from refusal_eval.workflow import scoring


rule score:
    """Score one (judge, model, split)."""
    input:
        prompts=f"{RESULTS}/prompts/{{split}}.jsonl",
        answers=f"{RESULTS}/answers/{{model}}/{{split}}.jsonl",
        verdicts=f"{RESULTS}/verdicts/{{judge}}/{{model}}/{{split}}.jsonl",
        published=published_scores,
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


rule published_answers:
    """Take one cell's stored responses as the published code would; for `protocol: compat` and `protocol_effects`."""
    input:
        requests=f"{RESULTS}/requests/{{model}}/{{split}}.jsonl",
        engine=ancient(model_engine),
        # Only which of them have a response: all of these have to be in the store, and to be seen from here.
        answers=ancient(f"{RESULTS}/answers/{{model}}/{{split}}.jsonl"),
    output:
        f"{RESULTS}/published/answers/{{model}}/{{split}}.jsonl",
    log:
        f"{LOGS}/published_answers/{{model}}/{{split}}.log",
    wildcard_constraints:
        model=ASKED_MODELS,
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=1000,
        runtime=30,
    params:
        published=lambda wildcards: scoring.published_reading(study, wildcards.model),
        code=code_version(ROOT / "scripts" / "published_answers.py"),
    message:
        "Reading responses of {wildcards.model} on {wildcards.split} as the published code does"
    script:
        "../../scripts/published_answers.py"


rule published_scores:
    """Score one (judge, model, split) as the published code does, and tell what each of its choices does."""
    input:
        prompts=f"{RESULTS}/prompts/{{split}}.jsonl",
        answers=f"{RESULTS}/answers/{{model}}/{{split}}.jsonl",
        verdicts=f"{RESULTS}/verdicts/{{judge}}/{{model}}/{{split}}.jsonl",
        published=f"{RESULTS}/published/answers/{{model}}/{{split}}.jsonl",
        recorded=recorded_votes,
    output:
        f"{RESULTS}/published/scores/{{judge}}/{{model}}/{{split}}.json",
    log:
        f"{LOGS}/published_scores/{{judge}}/{{model}}/{{split}}.log",
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=1000,
        runtime=30,
    params:
        cell=lambda wildcards: scoring.published_cell(study, *cell_of(wildcards)),
        recorded=lambda wildcards: [content_hash(path) for path in recorded_votes(wildcards)],
        code=code_version(ROOT / "scripts" / "published_scores.py"),
    message:
        "Scoring {wildcards.model} on {wildcards.split} by {wildcards.judge} as the published code does"
    script:
        "../../scripts/published_scores.py"


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
