"""Over-refusal against safety: one job for the whole study.

Reads all scores, the prompts and the near-duplicates among them; writes estimates/tradeoff.json and tables/tradeoff.*.
"""

from refusal_eval.workflow.tradeoff_stage import TradeOff

tradeoff = quick_to_ask(TradeOff(config))


rule tradeoff:
    """Weigh over-refusal against safety, by model, contrast pair, topic and language."""
    input:
        rows=tradeoff.rows,
        scores=tradeoff.scores,
        prompts=tradeoff.prompts,
        cards=reporting.cards,
        duplicates=f"{RESULTS}/estimates/duplicates.json",
    output:
        report(
            f"{RESULTS}/tables/tradeoff.csv",
            category="Trade-off",
            caption="../report/tradeoff_table.rst",
            labels={"result": "Over-refusal against safety", "form": "table"},
        ),
        json=f"{RESULTS}/estimates/tradeoff.json",
        md=f"{RESULTS}/tables/tradeoff.md",
        tex=f"{RESULTS}/tables/tradeoff.tex",
    log:
        f"{LOGS}/tradeoff.log",
    localrule: True
    params:
        study=tradeoff.study,
        code=code_version(ROOT / "scripts" / "make_tradeoff.py"),
    message:
        "Weighing over-refusal against safety"
    script:
        "../../scripts/make_tradeoff.py"
