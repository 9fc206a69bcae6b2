"""Judges that earn trust: calibration on gold, and the figures of their cards.

Reads gold, the judges' verdicts on it and judge_cards/ (rule judge_card, score.smk); writes calibration/{judge}/{gold}.json and
figures/judge_cards/{judge}/{gold}.*.
"""

CARD_FIGURES = collect(
    f"{RESULTS}/figures/judge_cards/{{judge}}/{{gold}}.{{ending}}",
    judge=JUDGES,
    gold=GOLD_SETS,
    ending=["svg", "pdf", "png", "html"],
)


rule calibration:
    """Fit the threshold and the curve of a judge's probabilities on one gold set."""
    input:
        gold=f"{RESULTS}/gold/{{gold}}.jsonl",
        verdicts=f"{RESULTS}/verdicts/{{judge}}/gold/{{gold}}.jsonl",
    output:
        f"{RESULTS}/calibration/{{judge}}/{{gold}}.json",
    log:
        f"{LOGS}/calibration/{{judge}}/{{gold}}.log",
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        calibration=lambda wildcards: analyses.calibration(study, wildcards),
        code=code_version(ROOT / "scripts" / "make_calibration.py"),
    message:
        "Calibrating judge {wildcards.judge} on {wildcards.gold}"
    script:
        "../../scripts/make_calibration.py"


rule judge_card_figure:
    """Draw the card of one judge on one gold set."""
    input:
        f"{RESULTS}/judge_cards/{{judge}}/{{gold}}.json",
    output:
        collect(
            f"{RESULTS}/figures/judge_cards/{{{{judge}}}}/{{{{gold}}}}.{{ending}}",
            ending=["svg", "pdf", "png", "html"],
        ),
    log:
        f"{LOGS}/judge_card_figure/{{judge}}/{{gold}}.log",
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        labels=lambda wildcards: labels_of(study, ["judge", "gold"]),
        threshold=lambda wildcards: judge_of(wildcards).own_threshold(),
        code=code_version(ROOT / "scripts" / "make_judge_figures.py"),
    message:
        "Drawing the card of judge {wildcards.judge} on {wildcards.gold}"
    script:
        "../../scripts/make_judge_figures.py"
