"""What the rules ask that estimate, and that compare judges with people and with each other: their params.

Everything is a function of the validated study; params of the whole study hold no labels, which may change without a
new computation.
"""

from typing import Any

from refusal_eval.study.study import Study
from refusal_eval.workflow.rule_files import content_hash
from refusal_eval.workflow.scoring import calibrated_on, saw
from refusal_eval.workflow.whole_study import may_block, sources_of

OUT_OF_FOLD = "out_of_fold"
FOREIGN = "foreign"  # calibrated on another gold set than the one it is measured on


# ---------------------------------------------------------------- estimates


def duplicates(study: Study) -> dict[str, Any]:
    """Return what, besides prompts, decides which of them are near-duplicates."""
    expectations = {name: split.expectation for name, split in sorted(study.splits.items())}
    return {"expectations": expectations, "sources": sources_of(study)}


def estimates(study: Study, wildcards: Any) -> dict[str, Any]:
    """Return what, besides its files, decides the estimates of one (judge, model)."""
    return {
        "judge": wildcards.judge,
        "model": wildcards.model,
        "splits": sorted(study.splits),
        "sources": sources_of(study),
        # The published c(x) is another function, so that a sweep of ours would not go through it.
        "tau_sweep": study.settings.protocol == "default",
        **may_block(study),
    }


def opinions(study: Study) -> list[str]:
    """Return the judges that have an opinion of their own.

    A judge that reads others says what they say, and so does one that asks the same as another: as one more judge it
    would make judges look alike.
    """
    twins = asking_the_same(study)
    return sorted(name for name, judge in study.judges.items() if not judge.reads() and name not in twins)


def asking_the_same(study: Study) -> dict[str, str]:
    """Return the judges that ask the same as another one, with that one: such as a raw and a calibrated one.

    The primary judge is the one of its kind that counts, and else the one whose name sorts first.
    """
    first: dict[str, dict[str, Any]] = {}
    twins = {}
    for name, judge in sorted(
        study.judges.items(), key=lambda item: (item[0] != study.settings.primary_judge, item[0])
    ):
        if judge.reads():
            continue
        asked = judge.asking() if name in study.engine_judges else judge.deciding()
        if (other := next((other for other, own in first.items() if own == asked), None)) is not None:
            twins[name] = other
        else:
            first[name] = asked
    return twins


# ---------------------------------------------------------------- judges on gold, and files of the user's


def measured(study: Study) -> list[dict[str, Any]]:
    """Return, for each judge and gold set, which gold fits its threshold and whether it was trained on this one.

    Whose labels they are is there only where they are not people's, and `seen` only if the judge was chosen on them.
    """
    found = []
    for judge, entry in study.judges.items():
        fitted_on, learned = calibrated_on(study, judge), entry.gold_behind(study.view)
        for gold in study.gold:
            where = None if fitted_on is None else OUT_OF_FOLD if fitted_on == gold else FOREIGN
            one = {"judge": judge, "gold": gold, "calibrate": where, "learned": gold in learned}
            found.append(one | study.gold[gold].whose | ({"seen": True} if saw(study, judge, gold) else {}))
    return found


def foreign_calibrations(study: Study) -> list[tuple[str, str]]:
    """Return the judge and the gold of the calibration that each of the foreign ones of `measured` has."""
    judges = [entry["judge"] for entry in measured(study) if entry["calibrate"] == FOREIGN]
    return [(judge, str(calibrated_on(study, judge))) for judge in judges]


def sources_of_numbers(study: Study) -> list[str]:
    """Return the user's files that decide verdicts or numbers: rubrics, lists, and those of analyses."""
    judges = [*study.judges.values(), *study.engine_judges.values()]
    of_analyses = (path for analysis in study.analyses.values() for path in analysis.own_files())
    return sorted({*(path for judge in judges for path in judge.files()), *of_analyses})


def own_estimates(study: Study) -> list[str]:
    """Return the user's files of estimates that analyses add to the results table."""
    return [path for analysis in study.analyses.values() for path in analysis.own_estimates()]


# ---------------------------------------------------------------- judges


def calibration(study: Study, wildcards: Any) -> dict[str, Any]:
    """Return what, besides gold and verdicts, decides a judge's calibration."""
    return {"judge": wildcards.judge, "gold": wildcards.gold, "level": study.settings.scoring.level}


def floors(study: Study) -> dict[str, dict[str, Any]]:
    """Return the floors that judges must reach, by judge."""
    return {name: judge.floor.model_dump() for name, judge in sorted(study.judges.items()) if judge.floor is not None}


# ---------------------------------------------------------------- the results table


def results(study: Study, files: list[str]) -> dict[str, Any]:
    """Return what, besides the content of its files, decides the results table.

    The files' names are part of it, so that one which is not asked for any more is noticed; those of people can be
    replaced by older ones.
    """
    folder = study.paths.results
    return {
        "study": study.name,
        "results": folder,
        "files": [path.removeprefix(f"{folder}/") for path in files],
        "people_sha256": [content_hash(path) for path in own_estimates(study)],
    }
