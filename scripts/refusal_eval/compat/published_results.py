"""An imported study whose answers are there already: a folder of results of the published library, read in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from refusal_eval.compat.published_config import Imported
from refusal_eval.compat.recorded_folder import layout_list, layout_rows, row_place, votes_of
from refusal_eval.compat.recorded_rows import samples_of
from refusal_eval.core.errors import UserError
from refusal_eval.core.recorded_files import ANSWERS, CHANNEL_ENDS, JUDGE_SCORES, split_folder

KEYWORD = "keyword"  # the judge of our catalogue that needs no GPU


@dataclass(frozen=True)
class Results:
    """What a folder holds.

    Attributes:
        samples: the most answers to a prompt, by split.
        missing: why a split is not there, by split.
        judged: the splits that came with the scores of a judge.
        channel_end: the first of `CHANNEL_ENDS` that stands in an answer; None where none does.
    """

    samples: Mapping[str, int]
    missing: Mapping[str, str]
    judged: Sequence[str]
    channel_end: str | None = None


def read_results(folder: Path, splits: Iterable[str]) -> Results:
    """Return what a folder holds of these splits.

    Raises:
        UserError: if it is none, or holds none of them, or a file is of another layout or holds what cannot be.
    """
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}")
    samples, missing, judged, texts = {}, {}, [], []
    for split in splits:
        try:
            found = split_folder(folder, split)
        except UserError as error:
            missing[split] = str(error)
            continue
        path = found / ANSWERS
        answers = [samples_of(row, row_place(path, number))[0] for number, row in enumerate(layout_rows(path))]
        samples[split] = max(map(len, answers), default=0)
        texts += [text for row in answers for text in row]
        if (scores := found / JUDGE_SCORES).is_file():
            for number, row in enumerate(layout_list(scores)):
                votes_of(row, row_place(scores, number))  # what cannot be is refused now, and not by the study
            judged.append(split)
    if not samples:
        raise UserError(f"{folder} holds answers to none of the splits of the config: {'; '.join(missing.values())}")
    channel_end = next((mark for mark in CHANNEL_ENDS if any(mark in text for text in texts)), None)
    return Results(samples, missing, judged, channel_end)


def with_results(result: Imported, found: Results, folder: str, judges: Sequence[str]) -> None:
    """Let an imported study read its answers from a folder.

    Args:
        result: the study; it is changed.
        found: what the folder holds.
        folder: the folder, as the catalogue file is to name it.
        judges: names of the judges of our catalogue.
    """
    study, name = result.study, result.study["study"]
    result.catalogue["models"][name]["recorded"] = folder
    splits = list(found.samples)
    result.notes += [f"dataset_splits: {split} is left out: {why}" for split, why in found.missing.items()]
    samples = max(found.samples.values())
    if samples != study["samples"]:
        result.notes.append(
            f"model.num_return_sequences: the config says {study['samples']}, and the folder has {samples} answers "
            f"to a prompt; `samples` is {samples}"
        )
    ours = study["judges"][0]
    if set(splits) <= set(found.judged):
        theirs = f"{name}-judge"
        result.catalogue["judges"] = {theirs: {"kind": "recorded", "label": "The published judge"}}
        chosen = [theirs, KEYWORD] if KEYWORD in judges else [theirs]
        told = f"their scores ({JUDGE_SCORES}) are the judge `{theirs}`"
    else:
        chosen = [KEYWORD] if KEYWORD in judges else [ours]
        told = f"not every split has a {JUDGE_SCORES}, so their judge is none of this study's"
    study |= {"splits": splits, "samples": samples, "judges": chosen}
    result.notes.append(
        f"the answers are read from {folder}: no engine is asked, no weights are fetched, and the model's sampling "
        f"stands for the record; {told}. To judge the same answers with ours too, add `{ours}` to `judges`, which asks "
        "an engine"
    )
    if allowed := [one for one in study.pop("allow", []) if one in splits]:
        study["allow"] = allowed
    # What was to do for weights and for the judge is not to do: nothing of it is used.
    result.todo = [
        one
        for one in result.todo
        if not one.startswith((f"engines.{name}.", "judges:", f"models.{name}.sampling"))
        and not (one.startswith("read why `") and one.split("`")[1] not in splits)
    ]
    _without_channels(result, found)


def _without_channels(result: Imported, found: Results) -> None:
    """Replace harmony's channels, which are told by token ids, by the text that ends the reasoning in the answers."""
    name = result.study["study"]
    model = result.catalogue["models"][name]
    if (model.get("reasoning") or {}).get("format") != "harmony":
        return
    end = found.channel_end or CHANNEL_ENDS[1]
    model["reasoning"] = {"end": end}
    if found.channel_end is not None:
        result.notes.append(
            f"reasoning: recorded answers have no token ids to tell channels by; `{end}`, which stands "
            "in them, ends the reasoning. A text without it counts as cut off in its reasoning, and is not judged"
        )
    else:
        result.todo.append(
            f"models.{name}.reasoning.end: the text that ends the reasoning in these answers; none of "
            f"{', '.join(f'`{mark}`' for mark in CHANNEL_ENDS)} stands in one. If they hold no reasoning, leave "
            "`reasoning` out"
        )
