"""The last of a study: the floors that judges must reach. Included last, as it waits for all that the others make.

Reads judge_cards/; writes judge_cards/floors.json, or ends the run with an error.
"""

FLOORS = analyses.floors(study)


rule judge_floor:
    """Fail if a judge agrees less with people than its floor asks, after everything else is made."""
    input:
        cards=CARDS,
        made=SHOWN,
    output:
        f"{RESULTS}/judge_cards/floors.json",
    log:
        f"{LOGS}/judge_floor.log",
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    params:
        floors=FLOORS,
        code=code_version(ROOT / "scripts" / "check_judge_floor.py"),
    message:
        "Checking that the judges reach their floors"
    script:
        "../../scripts/check_judge_floor.py"
