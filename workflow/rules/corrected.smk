"""Rates corrected for the judge's errors: one job for the whole study.

Reads all scores, gold with the judges' verdicts on it and, where the study names them, labels of people on its own
answers, and these answers; writes estimates/corrected.json. docs/corrected_rates.md says what may be believed.
"""

PEOPLES_LABELS = analyses.peoples_labels(study)


rule corrected:
    """Correct the rates for the judge's errors."""
    input:
        scores=collect(f"{RESULTS}/scores/{{cell}}.parquet", cell=CELLS),
        gold=[f"{RESULTS}/gold/{on['gold']}.jsonl" for on in analyses.measured(study)],
        gold_verdicts=[f"{RESULTS}/verdicts/{on['judge']}/gold/{on['gold']}.jsonl" for on in analyses.measured(study)],
        calibrations=collect(f"{RESULTS}/calibration/{{fit}}.json", fit=analyses.foreign_calibrations(study)),
        labels=PEOPLES_LABELS,
        answers=collect(
            f"{RESULTS}/answers/{{model}}/{{split}}.jsonl",
            model=config["models"] if PEOPLES_LABELS else [],
            split=config["splits"],
        ),
        duplicates=f"{RESULTS}/estimates/duplicates.json",
    output:
        f"{RESULTS}/estimates/corrected.json",
    log:
        f"{LOGS}/corrected.log",
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        study=lambda wildcards: analyses.corrected(study),
        code=code_version(ROOT / "scripts" / "make_corrected.py"),
    message:
        "Correcting rates for the judge's errors"
    script:
        "../../scripts/make_corrected.py"
