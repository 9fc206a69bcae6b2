"""Over-refusal against safety: one job for the whole study, and one for its table.

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
        duplicates=f"{RESULTS}/estimates/duplicates.json",
    output:
        f"{RESULTS}/estimates/tradeoff.json",
    log:
        f"{LOGS}/tradeoff.log",
    localrule: True
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        study=tradeoff.study,
        code=code_version(ROOT / "scripts" / "make_tradeoff.py"),
    message:
        "Weighing over-refusal against safety"
    script:
        "../../scripts/make_tradeoff.py"


rule tradeoff_table:
    """Typeset over-refusal against safety."""
    input:
        estimates=f"{RESULTS}/estimates/tradeoff.json",
        scores=tradeoff.scores,
        cards=reporting.cards,
    output:
        report(
            f"{RESULTS}/tables/tradeoff.csv",
            category="Trade-off",
            caption="../report/tradeoff_table.rst",
            labels={"result": "Over-refusal against safety", "form": "table"},
        ),
        md=f"{RESULTS}/tables/tradeoff.md",
        tex=f"{RESULTS}/tables/tradeoff.tex",
    log:
        f"{LOGS}/tradeoff_table.log",
    localrule: True
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        study=tradeoff.presentation,
        code=code_version(ROOT / "scripts" / "make_tradeoff_table.py"),
    message:
        "Typesetting over-refusal against safety"
    script:
        "../../scripts/make_tradeoff_table.py"
