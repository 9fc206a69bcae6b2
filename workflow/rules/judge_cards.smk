"""Judges that earn trust: calibration on gold, the cards' table and figures, agreement between judges.

Reads gold, the judges' verdicts on it and judge_cards/ (rule judge_card, score.smk); writes calibration/{judge}/{gold}.json,
judge_agreement.json, tables/judge_cards.*, tables/judges_*, figures/judge_cards/{judge}/{gold}.*.
"""

from refusal_eval.workflow.judge_cards import JudgeCards

judge_cards = quick_to_ask(JudgeCards(config))


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
    params:
        calibration=judge_cards.calibration,
        code=code_version(ROOT / "scripts" / "make_calibration.py"),
    message:
        "Calibrating judge {wildcards.judge} on {wildcards.gold}"
    script:
        "../../scripts/make_calibration.py"


rule judge_tables:
    """Make the table of all judge cards."""
    input:
        cards=judge_cards.cards,
    output:
        report(
            f"{RESULTS}/tables/judge_cards.csv",
            category="Judges",
            caption="../report/judge_cards_table.rst",
            labels={"result": "Judge cards", "form": "table"},
        ),
        [f"{RESULTS}/tables/judge_cards.{ending}" for ending in ("md", "tex")],
    log:
        f"{LOGS}/judge_tables.log",
    localrule: True
    params:
        study=judge_cards.presentation,
        code=code_version(ROOT / "scripts" / "make_judge_tables.py"),
    message:
        "Making the table of judge cards"
    script:
        "../../scripts/make_judge_tables.py"


rule judge_card_figure:
    """Draw the card of one judge on one gold set."""
    input:
        f"{RESULTS}/judge_cards/{{judge}}/{{gold}}.json",
    output:
        report(
            f"{RESULTS}/figures/judge_cards/{{judge}}/{{gold}}.svg",
            category="Judges",
            caption="../report/judge_card_figure.rst",
            labels={"result": "{judge} on {gold}", "form": "figure"},
        ),
        [f"{RESULTS}/figures/judge_cards/{{judge}}/{{gold}}.{ending}" for ending in ("pdf", "png")],
    log:
        f"{LOGS}/judge_card_figure/{{judge}}/{{gold}}.log",
    localrule: True
    params:
        study=judge_cards.drawn,
        code=code_version(ROOT / "scripts" / "make_judge_figures.py"),
    message:
        "Drawing the card of judge {wildcards.judge} on {wildcards.gold}"
    script:
        "../../scripts/make_judge_figures.py"


rule judge_agreement:
    """Compare what all judges say of the same answers."""
    input:
        prompts=judge_cards.prompts,
        verdicts=judge_cards.verdicts,
        scores=judge_cards.scores,
        summaries=judge_cards.summaries,
    output:
        report(
            f"{RESULTS}/tables/judges_agree.csv",
            category="Judges",
            caption="../report/judges_agree_table.rst",
            labels={"result": "Agreement between judges", "form": "table"},
        ),
        report(
            f"{RESULTS}/tables/judges_disagree.csv",
            category="Judges",
            caption="../report/judges_disagree_table.rst",
            labels={"result": "Answers in dispute", "form": "table"},
        ),
        [f"{RESULTS}/tables/judges_agree.{ending}" for ending in ("md", "tex")],
        json=f"{RESULTS}/judge_agreement.json",
    log:
        f"{LOGS}/judge_agreement.log",
    localrule: True
    params:
        comparison=judge_cards.comparison,
        code=code_version(ROOT / "scripts" / "compare_judges.py"),
    message:
        "Comparing the judges"
    script:
        "../../scripts/compare_judges.py"
