"""An imported study whose answers are there already: a folder of results of the published library, read in."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from refusal_eval.core.errors import UserError
from refusal_eval.core.recorded_files import ANSWERS, CHANNEL_ENDS, JUDGE_SCORES, split_folder
from refusal_eval.features.published.published_config import Imported, words
from refusal_eval.recorded.recorded_folder import read_answers, votes_by_row

KEYWORD = "keyword"  # the judge of our catalogue that needs no GPU


class Results(NamedTuple):
    """What a folder holds: the most answers to a prompt and why a split is not there, by split; the splits that came
    with the scores of a judge; and the first of `CHANNEL_ENDS` that stands in an answer.
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
    samples, missing, judged, ends = {}, {}, [], set()
    for split in splits:
        try:
            found = split_folder(folder, split)
        except UserError as error:
            missing[split] = str(error)
            continue
        texts = [texts for texts, _ in read_answers(found / ANSWERS)[1]]
        samples[split] = max(map(len, texts), default=0)
        ends |= {mark for mark in CHANNEL_ENDS if any(mark in text for own in texts for text in own)}
        if (found / JUDGE_SCORES).is_file():
            votes_by_row(found / ANSWERS, found / JUDGE_SCORES)  # what cannot be is refused now, and not by the study
            judged.append(split)
    if not samples:
        raise UserError(f"{folder} holds answers to none of the splits of the config: {'; '.join(missing.values())}")
    return Results(samples, missing, judged, next((mark for mark in CHANNEL_ENDS if mark in ends), None))


def with_results(result: Imported, found: Results, folder: str, judges: Sequence[str]) -> None:
    """Let an imported study, which is changed, read its answers from a folder that holds this.

    `folder` is the name that the catalogue file is to give it, `judges` are those of our catalogue.
    """
    study, name = result.study, result.study["study"]
    result.catalogue["models"][name]["recorded"] = folder
    splits = list(found.samples)
    for split, why in found.missing.items():
        result.note("split_missing", split=split, why=why)
    samples = max(found.samples.values())
    if samples != study["samples"]:
        result.note("samples", asked=study["samples"], found=samples)
    if fewer := [f"{split} ({count})" for split, count in found.samples.items() if count < samples]:
        result.note("uneven", splits=", ".join(fewer), found=samples)
    ours = study["judges"][0]
    chosen = [KEYWORD] if KEYWORD in judges else []
    about, theirs = "no_recorded_judge", f"{name}-judge"
    if set(splits) <= set(found.judged):
        result.catalogue["judges"] = {theirs: {"kind": "recorded", "label": "The published judge"}}
        about, chosen = "recorded_judge", [theirs, *chosen]
    remark = words()["notes"][about].format(file=JUDGE_SCORES, judge=theirs)
    study |= {"splits": splits, "samples": samples, "judges": chosen or [ours]}
    if ours not in study["judges"]:
        result.notes = [note for note in result.notes if note not in result.of_judge]
    result.note("recorded", folder=folder, remark=remark, ours=ours)
    if allowed := [one for one in study.pop("allow", []) if one in splits]:
        study["allow"] = allowed
    # Skip what was to do for weights and for the judge: neither is used.
    result.todo = [
        one
        for one in result.todo
        if not one.startswith((f"engines.{name}.", "judges:", f"models.{name}.sampling"))
        and not (one.startswith("read why `") and one.split("`")[1] not in splits)
    ]
    # Harmony's channels are recognised by token ids: the text that ends the reasoning in the answers stands for them.
    model = result.catalogue["models"][name]
    if (model.get("reasoning") or {}).get("format") == "harmony":
        model["reasoning"] = {"end": found.channel_end or CHANNEL_ENDS[1]}
        if found.channel_end is not None:
            result.note("channels", end=found.channel_end)
        else:
            result.do("channels", name=name, marks=", ".join(f"`{mark}`" for mark in CHANNEL_ENDS))
