"""Scores: from answers and verdicts to numbers per prompt and per cell, and the judges' cards.

Reads prompts/, answers/ and verdicts/; writes scores/{judge}/{model}/{split}.csv (a row per prompt) and .json (the
cell's rates with intervals), and judge_cards/{judge}/{gold}.json. No GPU job depends on anything here.
"""


rule score:
    """Score one (judge, model, split)."""
    input:
        prompts=f"{RESULTS}/prompts/{{split}}.jsonl",
        answers=f"{RESULTS}/answers/{{model}}/{{split}}.jsonl",
        verdicts=f"{RESULTS}/verdicts/{{judge}}/{{model}}/{{split}}.jsonl",
    output:
        csv=f"{RESULTS}/scores/{{judge}}/{{model}}/{{split}}.csv",
        json=f"{RESULTS}/scores/{{judge}}/{{model}}/{{split}}.json",
    log:
        f"{LOGS}/score/{{judge}}/{{model}}/{{split}}.log",
    localrule: True
    params:
        cell=scoring.cell,
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
    output:
        f"{RESULTS}/judge_cards/{{judge}}/{{gold}}.json",
    log:
        f"{LOGS}/judge_card/{{judge}}/{{gold}}.log",
    localrule: True
    params:
        card=scoring.card,
        code=code_version(ROOT / "scripts" / "make_judge_card.py"),
    message:
        "Measuring judge {wildcards.judge} on {wildcards.gold}"
    script:
        "../../scripts/make_judge_card.py"
