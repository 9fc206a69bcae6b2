"""What rules ask that look at a whole study at once: its cells, labels, and where its splits come from."""

from collections.abc import Iterable
from typing import Any

from refusal_eval.config.checked_study import LISTS
from refusal_eval.config.entry_marks import Marks
from refusal_eval.config.feature_keys import SECTIONS, STUDY_KEYS
from refusal_eval.core.states import HEADLINE_READING
from refusal_eval.study.study import NOUNS, Study

# Settings that the methods section names, and keys of entries that it says nothing of.
METHODS_NAME = (
    *("models", "splits", "judges", "primary_judge", "gold", "samples", "seed", "determinism", "protocol"),
    *("prompts_per_split", "scoring", "equivalence_margin"),
)
METHODS_LEAVE_OUT = {*Marks.model_fields, "floor"}


def cells_of(study: Study) -> list[list[str | None]]:
    """Return judge, model and split of all that is scored by judges of every model, in the study's order."""
    return [[cell.judge, cell.model, cell.split] for cell in study.cells if cell.judge in study.view.whole_judges]


def may_block(study: Study) -> dict[str, bool]:
    """Return that answers of a study may be blocked, for what then estimates with and without these; else nothing."""
    return {"may_block": True} if study.may_block else {}


def labels_of(study: Study, nouns: Iterable[str] = NOUNS) -> dict[str, dict[str, str]]:
    """Return what readers see instead of names, for each of these nouns: `{"models": {name: label}}`.

    Splits that are only captured, and what writers are asked, are shown nowhere.
    """
    entries = {noun: _shown_entries(study) if noun == "split" else study.entries(noun) for noun in nouns}
    return {f"{noun}s": {name: study.label(noun, name) for name in names} for noun, names in entries.items()}


def _shown_entries(study: Study) -> list[str]:
    """Return the splits of a study, and those on the way to them that are made of others."""
    made = (name for name, split in study.entries("split").items() if split.source.made_of and not split.source.asked)
    return [*study.splits, *(name for name in made if name not in study.splits)]


def citations_of(study: Study) -> dict[str, list[str]]:
    """Return whom each entry of the study cites: no file but the methods section and its bibliography depends on it."""
    sections = {key: entries for key, entries in study.config.items() if key.endswith("_entries")}
    return {
        f"{section}.{name}": entry["citation"]
        for section, entries in sections.items()
        for name, entry in entries.items()
        if entry.get("citation")
    }


def settings_of(study: Study) -> dict[str, Any]:
    """Return what the methods section says of settings and entries: a change may leave all files of numbers as they
    were, such as a threshold that flips no label. Of engines their identity files tell the rest.
    """
    config, said = study.config, dict[str, Any]()
    for section, names in (
        ("model", "models"),
        ("split", "splits"),
        ("gold", "gold"),
        ("judge", "judge_entries"),
        *((LISTS[section], section) for section in SECTIONS.names()),
    ):
        entries = {name: config[f"{section}_entries"][name] for name in sorted(config[names])}
        said[f"{section}_entries"] = {
            name: {key: value for key, value in entry.items() if key not in METHODS_LEAVE_OUT}
            for name, entry in entries.items()
        }
    said["weights"] = {name: entry.get("weights") for name, entry in sorted(config["engine_entries"].items())}
    of_features = (key for name in STUDY_KEYS.names() for key in STUDY_KEYS.get(name).in_methods)
    return said | {name: config[name] for name in (*METHODS_NAME, *of_features)}


def splits_of(study: Study) -> list[dict[str, str]]:
    """Return expectation, headline reading and source of each split, in the study's order."""
    sources = sources_of(study)
    return [
        {
            "name": name,
            "expectation": split.expectation,
            "reading": split.headline or HEADLINE_READING[split.expectation],
            "source": sources[name],
        }
        for name, split in study.splits.items()
    ]


def shown_splits(study: Study) -> list[dict[str, Any]]:
    """Return what tables and figures say of each split, in the study's order: expectation, headline reading, and which
    turns are scored (None where prompts have one).
    """
    return [
        {"name": split["name"], "expectation": split["expectation"], "reading": split["reading"]}
        | {"scored": scored_turns(study, split["name"])}
        for split in splits_of(study)
    ]


def scored_turns(study: Study, split: str) -> str | None:
    """Return which turns of a split are scored; None where its prompts have one."""
    return study.settings.split_entries[split].scored_turns


def sources_of(study: Study) -> dict[str, str]:
    """Return a word for the source of each split: the first split, by its name, that comes from there.

    So params hold no path of this machine.
    """
    first: dict[str, str] = {}
    return {name: first.setdefault(study.origin(name), name) for name in sorted(study.splits)}
