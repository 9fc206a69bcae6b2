"""Comparisons of models, and of judges, on the same prompts.

Reads scores/ and the judges' cards; writes tables/comparisons.{csv,md,tex} and estimates/comparisons.json.
"""

from refusal_eval.workflow.comparing_stage import Comparisons

comparisons = quick_to_ask(Comparisons(config))


rule compare:
    """Compare the pairs that the study names, with tests corrected over each family."""
    input:
        scores=comparisons.scores,
        summaries=comparisons.summaries,
        cards=reporting.cards,
        duplicates=comparisons.duplicates,
    output:
        report(
            f"{RESULTS}/tables/comparisons.csv",
            category="Refusal rates",
            caption="../report/comparisons_table.rst",
            labels={"result": "Differences on the same prompts", "form": "table"},
        ),
        [f"{RESULTS}/tables/comparisons.{ending}" for ending in ("md", "tex")],
        json=f"{RESULTS}/estimates/comparisons.json",
    log:
        f"{LOGS}/compare.log",
    localrule: True
    params:
        comparisons=comparisons.presentation,
        code=code_version(ROOT / "scripts" / "make_comparisons.py"),
    message:
        "Comparing on the same prompts"
    script:
        "../../scripts/make_comparisons.py"
