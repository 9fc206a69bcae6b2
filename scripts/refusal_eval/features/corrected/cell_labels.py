"""Labels of people on a study's own answers, with the judges' on the same, by cell."""

import itertools
from collections.abc import Mapping, Sequence, Set
from typing import Any

from refusal_eval.core.files import read_jsonl
from refusal_eval.core.logs import LOG
from refusal_eval.features.corrected.peoples_labels import (
    LabelledCell,
    judge_labels,
    read_labels,
    readable_answers,
    unread_answers,
)
from refusal_eval.stats.estimates.units import JudgedCell, Units


def labels_of_cells(
    files: Mapping[str, Sequence[str]],
    params: Mapping[str, Any],
    units: Mapping[JudgedCell, Units],
    learned: Mapping[str, Set[str]],
) -> tuple[dict[JudgedCell, LabelledCell], dict[tuple[str, str], int]]:
    """Return labels of people and of the judge by cell, and the number of labels by (model, split) not in the study.

    Both are empty for a study without labels. `learned` are the texts that each judge was fitted on.
    """
    found: dict[JudgedCell, LabelledCell] = {}
    elsewhere: dict[tuple[str, str], int] = {}
    for path in files["labels"]:
        by_cell = list(itertools.product(params["models"], [split["name"] for split in params["splits"]]))
        people, frame, elsewhere = read_labels(read_jsonl(path), path, by_cell)
        if elsewhere:
            counts_text = ", ".join(f"{model} on {split}: {n}" for (model, split), n in elsewhere.items())
            LOG.warning("labels of models or splits that this study does not have, left out: %s", counts_text)
        models = {model for model, _ in people}
        for (model, split), file in zip(by_cell, files["answers"], strict=True):
            # Also of splits that people labelled nothing of, as these may be in a pool with others.
            if model not in models:
                continue
            number, labelled, changed = readable_answers(read_jsonl(file), people.get((model, split), {}))
            if lost := len(people.get((model, split), {})) - len(labelled):
                LOG.warning("labels of no answer that has a text here, left out: %s on %s: %d", model, split, lost)
            frame_of_model = (frame or {}).get(model, {})
            # A file may mix labels of unknown origin with those of an audit that records it.
            unknown = frame is None or (split not in frame_of_model and (model, split) in people)
            drawn_from = None if unknown else frame_of_model.get(split, {})
            for judge in params["judges"]:
                cell = (judge, model, split)
                unread = unread_answers(units[cell], number)
                said = judge_labels(units[cell], labelled) if labelled else {}
                known = sum(label.read in learned[judge] for label in labelled.values())
                found[cell] = LabelledCell(labelled, said, drawn_from, changed, unread, known)
    return found, elsewhere
