"""Rates corrected for the judge's errors: one job for the whole study, one for its table.

Reads all scores, gold with the judges' verdicts on it and, where the study names them, labels of people on its own
answers, and these answers; writes estimates/corrected.json and tables/corrected.*. docs/corrected_rates.md says what
may be believed.
"""

from refusal_eval.workflow.correcting import Correcting

correcting = quick_to_ask(Correcting(config))


rule corrected:
    """Correct the rates for the judge's errors."""
    input:
        rows=correcting.rows,
        scores=correcting.scores,
        gold=correcting.gold,
        gold_verdicts=correcting.gold_verdicts,
        calibrations=correcting.calibrations,
        labels=correcting.labels,
        verdicts=correcting.verdicts,
        answers=correcting.answers,
        duplicates=f"{RESULTS}/estimates/duplicates.json",
    output:
        f"{RESULTS}/estimates/corrected.json",
    log:
        f"{LOGS}/corrected.log",
    localrule: True
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        study=correcting.study,
        code=code_version(ROOT / "scripts" / "make_corrected.py"),
    message:
        "Correcting rates for the judge's errors"
    script:
        "../../scripts/make_corrected.py"


rule corrected_table:
    """Typeset corrected rates."""
    input:
        estimates=f"{RESULTS}/estimates/corrected.json",
        cards=reporting.cards,
    output:
        report(
            f"{RESULTS}/tables/corrected.csv",
            category="Refusal rates",
            caption="../report/corrected_table.rst",
            labels={"result": "Corrected for the judge's errors", "form": "table"},
        ),
        md=f"{RESULTS}/tables/corrected.md",
        tex=f"{RESULTS}/tables/corrected.tex",
    log:
        f"{LOGS}/corrected_table.log",
    localrule: True
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        study=correcting.presentation,
        code=code_version(ROOT / "scripts" / "make_corrected_table.py"),
    message:
        "Typesetting corrected rates"
    script:
        "../../scripts/make_corrected_table.py"
