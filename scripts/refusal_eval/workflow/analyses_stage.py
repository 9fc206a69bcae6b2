"""What the rules ask that analyse a study: params of estimates, comparisons, the trade-off and corrected rates, and of
judges beside people and each other.

Everything is a function of the validated study; params of the whole study hold no labels, which may change without a
new computation.
"""

import dataclasses
from pathlib import Path
from typing import Any

from refusal_eval.config.judge_entry import JudgeEntry
from refusal_eval.config.kinds import JUDGES
from refusal_eval.study.batches import panel_judges
from refusal_eval.study.comparison_families import study_families
from refusal_eval.study.paths import Paths
from refusal_eval.study.study import Study
from refusal_eval.workflow.content import content_hash
from refusal_eval.workflow.scoring import calibrated_on
from refusal_eval.workflow.whole_study import Config, cells_of, sources_of, splits_of

TWO_KINDS = ("comply", "refuse")
OUT_OF_FOLD = "out_of_fold"
FOREIGN = "foreign"  # calibrated on another gold set than the one it is measured on


def estimate_files(config: Config) -> list[str]:
    """Return the files of estimates of a study, each `{"estimates": [...], ...}`."""
    cells = [f"cells/{judge}/{model}" for judge in sorted(config["judges"]) for model in sorted(config["models"])]
    analyses = {
        "variance": len(opinions(config)) > 1 and config["samples"] > 1,
        "comparisons": bool(study_families(config)),
        "tradeoff": has_tradeoff(config),
        "corrected": has_corrected(config),
    }
    names = [*cells, *(name for name, made in analyses.items() if made)]
    return [f"{Paths(config).results}/estimates/{name}.json" for name in names]


# ---------------------------------------------------------------- estimates


def duplicates(config: Config) -> dict[str, Any]:
    """Return what, besides prompts, decides which of them are near-duplicates."""
    entries = config["split_entries"]
    expectations = {split: entries[split]["expectation"] for split in sorted(config["splits"])}
    return {"expectations": expectations, "sources": sources_of(config)}


def estimates(config: Config, wildcards: Any) -> dict[str, Any]:
    """Return what, besides its files, decides the estimates of one (judge, model)."""
    return {
        "judge": wildcards.judge,
        "model": wildcards.model,
        "splits": sorted(config["splits"]),
        "sources": sources_of(config),
        "samples": config["samples"],
        **config["scoring"],
        # The published c(x) is another function, so that a sweep of ours would not go through it.
        "tau_sweep": config["protocol"] == "default",
    }


def opinions(config: Config) -> list[str]:
    """Return the judges that have an opinion of their own.

    A panel says what its members say: as one more judge it would make judges look alike.
    """
    return sorted(set(config["judges"]) - set(panel_judges(config)))


def variance(config: Config) -> dict[str, Any]:
    """Return what, besides labels, decides the split of the variance over judges."""
    names = {"judges": opinions(config), "models": sorted(config["models"]), "splits": sorted(config["splits"])}
    return names | {"level": config["scoring"]["level"]}


# ---------------------------------------------------------------- comparisons


def compared(config: Config) -> list[str]:
    """Return the cells that are compared, as `judge/model/split`."""
    return sorted("/".join(cell) for cell in {cell for family in study_families(config) for cell in family.cells()})


def pools(config: Config) -> bool:
    """Tell whether a comparison is made over several splits."""
    return any(scope.pool for family in study_families(config) for scope in family.scopes)


def comparisons(config: Config) -> dict[str, Any]:
    """Return the families, and what decides their numbers besides scores."""
    splits = sorted(splits_of(config), key=lambda split: split["name"])
    return {
        "cells": [cell.split("/") for cell in compared(config)],
        "families": [dataclasses.replace(family, label="").as_dict() for family in study_families(config)],
        "samples": config["samples"],
        "level": config["scoring"]["level"],
        "splits": splits,
    }


# ---------------------------------------------------------------- the trade-off, and corrected rates


def has_tradeoff(config: Config) -> bool:
    """Tell whether a study has splits of both expectations, or one that may vary."""
    kinds = {entry["expectation"] for entry in config["split_entries"].values()}
    return kinds.issuperset(TWO_KINDS) or "varies" in kinds


def tradeoff(config: Config) -> dict[str, Any]:
    """Return what, besides files, decides the trade-off."""
    sources, entries = sources_of(config), config["split_entries"]
    alike: dict[tuple[str, str], list[str]] = {}
    for split in config["splits"]:
        alike.setdefault((sources[split], entries[split]["expectation"]), []).append(split)
    # Clusters of a comply and a refuse split of one source may be contrast pairs.
    safe, unsafe = ([s for s in config["splits"] if entries[s]["expectation"] == e] for e in TWO_KINDS)
    twins = [[a, b] for a in safe for b in unsafe if sources[a] == sources[b]]
    return _whole(config) | {"twins": twins, "related": sorted(alike.values())}


def has_corrected(config: Config) -> bool:
    """Tell whether a study has gold, or labels of people."""
    return bool(config["gold"] or peoples_labels(config))


def corrected(config: Config) -> dict[str, Any]:
    """Return what, besides files, decides the corrected rates."""
    labels = [content_hash(path) for path in peoples_labels(config)]
    return _whole(config) | {"measured": measured(config), "labels_sha256": labels}


def measured(config: Config) -> list[dict[str, Any]]:
    """Return every judge on every gold set, and where its threshold is fitted: nowhere, there, or elsewhere."""
    study, found = Study(config), []
    for judge in config["judges"]:
        fitted_on = calibrated_on(study, judge)
        for gold in config["gold"]:
            where = None if fitted_on is None else OUT_OF_FOLD if fitted_on == gold else FOREIGN
            found.append({"judge": judge, "gold": gold, "calibrate": where})
    return found


def foreign_calibrations(config: Config) -> list[str]:
    """Return the `judge/gold` of the calibration that each of the foreign ones of `measured` has."""
    study = Study(config)
    judges = [entry["judge"] for entry in measured(config) if entry["calibrate"] == FOREIGN]
    return [f"{judge}/{calibrated_on(study, judge)}" for judge in judges]


def peoples_labels(config: Config) -> list[str]:
    """Return the labels of people on this study's answers, as a list for `input`."""
    path = (config["corrected"] or {}).get("labels")
    return [path] if path else []


def peoples_agreement(config: Config) -> list[str]:
    """Return the agreement of people that was written beside the labels the study names, as a list.

    None for labels of another origin.
    """
    beside = [Path(path).with_name("agreement.json") for path in peoples_labels(config)]
    return [str(path) for path in beside if path.is_file()]


# ---------------------------------------------------------------- judges


def calibration(config: Config, wildcards: Any) -> dict[str, Any]:
    """Return what, besides gold and verdicts, decides a judge's calibration."""
    return {"judge": wildcards.judge, "gold": wildcards.gold, "level": config["scoring"]["level"]}


def agreement(config: Config) -> dict[str, Any]:
    """Return what, besides verdicts and scores, decides how judges agree."""
    entries = config["judge_entries"]
    panels = sorted(panel_judges(config))
    return {
        "splits": splits_of(config),
        "level": config["scoring"]["level"],
        "cells": sorted(cells_of(config)),
        "members": {judge: list(entries[judge]["members"]) for judge in panels},
    }


def threshold(config: Config, judge: str) -> float | None:
    """Return the threshold of a judge's own, if any, for the figure of its card."""
    entry: JudgeEntry = JUDGES.entry(config["judge_entries"][judge])
    return entry.own_threshold()


def floors(config: Config) -> dict[str, dict[str, Any]]:
    """Return the floors that judges must reach, by judge."""
    entries = {judge: config["judge_entries"][judge] for judge in sorted(config["judges"])}
    return {judge: dict(entry["floor"]) for judge, entry in entries.items() if entry.get("floor")}


# ---------------------------------------------------------------- the results table


def results(config: Config, files: list[str]) -> dict[str, Any]:
    """Return what, besides the content of its files, decides the results table.

    The files' names are part of it, so that one which is not asked for any more is noticed; those of people can be
    replaced by older ones.
    """
    folder = Paths(config).results
    return {
        "study": config["study"],
        "results": folder,
        "tau": config["scoring"]["tau"],
        "files": [path.removeprefix(f"{folder}/") for path in files],
        "people_sha256": [content_hash(path) for path in peoples_agreement(config)],
    }


def _whole(config: Config) -> dict[str, Any]:
    """What decides the numbers of an analysis of all cells."""
    names: dict[str, Any] = {name: config[name] for name in ("models", "judges", "gold", "samples")}
    return names | {"splits": splits_of(config), "cells": cells_of(config), "level": config["scoring"]["level"]}
