"""Scores: from answers and verdicts to numbers per prompt and per cell, and the judges' cards.

Reads prompts/, answers/ and verdicts/; writes scores/{judge}/{model}/{split}.csv (a row per prompt) and .json (the
cell's rates with intervals), and judge_cards/{judge}/{gold}.json. No GPU job depends on anything here.
"""


def cell_params(wildcards):
    """What, besides answers and verdicts, decides a cell's numbers."""
    split = config["split_entries"][wildcards.split]
    return {
        "judge": wildcards.judge,
        "model": wildcards.model,
        "split": wildcards.split,
        "expectation": split["expectation"],
        "headline": split["headline"],
        "samples": config["samples"],
        "max_tokens": config["model_entries"][wildcards.model]["sampling"]["max_tokens"],
        **config["scoring"],
    }


def card_params(wildcards):
    """What, besides gold and verdicts, decides a judge's card."""
    return {
        "judge": wildcards.judge,
        "gold": wildcards.gold,
        "raters": config["gold_entries"][wildcards.gold]["raters"],
        "level": config["scoring"]["level"],
    }


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
        cell=cell_params,
        code=code_version("scripts/score_cell.py"),
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
        card=card_params,
        code=code_version("scripts/make_judge_card.py"),
    message:
        "Measuring judge {wildcards.judge} on {wildcards.gold}"
    script:
        "../../scripts/make_judge_card.py"
