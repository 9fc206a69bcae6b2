"""What the labelling kit reads of a finished study."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from refusal_eval.config.datasets import SCORED_BY_DEFAULT
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_jsonl
from refusal_eval.core.hints import nearest
from refusal_eval.stats.estimates.clusters import names_apart
from refusal_eval.tools.audit.audit_sample import Item, Member, Text, add_cell, item_id, labels_by_key, readable
from refusal_eval.workflow.whole_study import sources_of

Config = Mapping[str, Any]


def results_of(config: Config) -> Path:
    """Return the folder of a study's results."""
    return Path(config["results_dir"], config["study"])


def chosen(named: Sequence[str], known: Sequence[str], what: str) -> list[str]:
    """Return the models or splits that are named, in the study's order; all where none is.

    Raises:
        UserError: for a name that the study does not have.
    """
    for name in named:
        if name not in known:
            raise UserError(f"the study has no {what} `{name}`{nearest(name, known)}")
    return [name for name in known if name in named] if named else list(known)


def study_items(config: Config, models: Iterable[str], splits: Iterable[str]) -> dict[str, Item]:
    """Return all texts of these cells that can be labelled, by id.

    Raises:
        UserError: if the study has not made its answers and verdicts.
    """
    items: dict[str, Item] = {}
    cells = [(model, split) for model in models for split in splits]
    for model, split in cells:
        folder = results_of(config) / "verdicts"
        paths = [folder / judge / model / f"{split}.jsonl" for judge in config["judges"]]
        labels = [labels_by_key(_rows(path)) for path in paths]
        add_cell(items, (model, split), cell_texts(config, model, split), labels)
    return _clusters_apart(items, sources_of(config))


def _clusters_apart(items: dict[str, Item], sources: Mapping[str, str]) -> dict[str, Item]:
    """The same items with clusters that mean the same in all splits; an item has that of its first answer."""
    first = {name: item.members[0].split for name, item in items.items()}
    found: dict[str, set[str]] = {}
    for name, item in items.items():
        found.setdefault(first[name], set()).add(item.cluster)
    names = names_apart(found, sources)
    return {name: replace(item, cluster=names[first[name]][item.cluster]) for name, item in items.items()}


def cell_texts(config: Config, model: str, split: str) -> Iterator[tuple[tuple[str, int, int], Text, str]]:
    """Yield key, text and cluster of each answer of a cell that can be labelled (see `audit_sample.readable`)."""
    results, dialogue = results_of(config), config["split_entries"][split].get("dialogue")
    scored = (dialogue["scored"] or SCORED_BY_DEFAULT[dialogue["mode"]]) if dialogue else "all"
    prompts = _rows(results / "prompts" / f"{split}.jsonl")
    return readable(prompts, _rows(_answers(config, model, split)), scored)


def texts_of(config: Config, wanted: Iterable[Item]) -> dict[str, Text]:
    """Return the texts of these items, by id."""
    first = {min(item.members): item.id for item in wanted}
    found = {}
    for model, split in sorted({(member.model, member.split) for member in first}):
        for key, text, _ in cell_texts(config, model, split):
            name = first.get(Member(model, split, *key))
            if name is not None:
                found[name] = text
    return found


def gone_answers(config: Config, sample: Iterable[Mapping[str, Any]]) -> list[Member]:
    """Return the answers behind a sample that the study no longer asks for, sorted.

    Their model, split, prompt or sample was taken out since the sample was drawn.
    """
    gone = []
    for (model, split), own in _by_cell(sample).items():
        if model in config["models"] and split in config["splits"]:
            rows = _rows(_answers(config, model, split))
            there = {(row["prompt_id"], row["sample"], row["turn"]) for row in rows}
            own = {member: name for member, name in own.items() if member[2:] not in there}
        gone += sorted(own)
    return gone


def changed_answers(config: Config, sample: Iterable[Mapping[str, Any]]) -> list[Member]:
    """Return the answers behind a sample that are not those that were drawn, sorted.

    Args:
        config: the study.
        sample: rows of an audit without what is gone (`gone_answers`).
    """
    changed = []
    for (model, split), own in _by_cell(sample).items():
        now = {Member(model, split, *key): text for key, text, _ in cell_texts(config, model, split)}
        changed += [m for m in sorted(own) if m not in now or item_id(now[m]) != own[m]]
    return changed


def _by_cell(sample: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], dict[Member, str]]:
    """The answers behind a sample with the ids of their texts, by model and split, sorted."""
    found: dict[tuple[str, str], dict[Member, str]] = {}
    for row in sample:
        for names in row["members"]:
            member = Member(*names)
            found.setdefault((member.model, member.split), {})[member] = row["id"]
    return dict(sorted(found.items()))


def _answers(config: Config, model: str, split: str) -> Path:
    return results_of(config) / "answers" / model / f"{split}.jsonl"


def _rows(path: Path) -> list[Any]:
    if not path.is_file():
        raise UserError(f"there is no {path}: run the study first (`refusal-eval status` shows what is missing)")
    return list(read_jsonl(path))
