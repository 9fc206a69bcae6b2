"""What recorded answers need of the study they are in: their files, no dialogues, and verdicts only where they are."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.config.kinds import JUDGES
from refusal_eval.config.shapes import KeyPath
from refusal_eval.core.errors import UserError
from refusal_eval.core.recorded_files import CHANNEL_ENDS, JUDGE_SCORES, split_folder

Mistake = tuple[str, str, KeyPath, str]  # section, entry, where in it, what is wrong


def recorded_mistakes(
    models: Mapping[str, Any], judges: Mapping[str, Any], splits: Mapping[str, Any], gold: Sequence[str]
) -> Iterator[Mistake]:
    """Yield what is wrong with the recorded models and judges of a study as they are written (valid or not).

    Args:
        models: the entries of the study's models, by name.
        judges: those of its judges.
        splits: those of its splits.
        gold: the study's gold.
    """
    readers = [name for name, entry in judges.items() if isinstance(entry, Mapping) and _is_recorded(entry.get("kind"))]
    for name, entry in models.items():
        folder = entry.get("recorded") if isinstance(entry, Mapping) else None
        if isinstance(folder, str):
            yield from _of_model(name, entry, folder, splits, bool(readers))
    asked = [name for name, entry in models.items() if isinstance(entry, Mapping) and not entry.get("recorded")]
    for reader in readers:
        if asked:
            message = f"reads verdicts that came with recorded answers, and model `{asked[0]}` has none (`recorded`)"
            yield "judges", reader, ("kind",), message
        if gold:
            yield "judges", reader, ("kind",), "cannot be asked about gold; leave `gold` out of a study with this judge"


def _is_recorded(kind: Any) -> bool:
    judge: Any = JUDGES.get(kind) if kind in JUDGES.names() else None
    return judge is not None and judge.way == "recorded"


def _of_model(
    name: str, entry: Mapping[str, Any], folder: str, splits: Mapping[str, Any], judged: bool
) -> Iterator[Mistake]:
    reasoning = entry.get("reasoning")
    if isinstance(reasoning, Mapping) and reasoning.get("format") == "harmony":
        message = (
            "recorded answers have no token ids, which channels are told by; write the text that ends the reasoning in "
            f"these answers, e.g. `reasoning: {{end: {CHANNEL_ENDS[1]}}}`"
        )
        yield "models", name, ("reasoning", "format"), message
    if entry.get("lora"):
        yield "models", name, ("lora",), "recorded answers are read and not drawn; leave it out"
    if not os.path.isdir(folder):
        yield "models", name, ("recorded",), f"there is no folder {folder}"
        return
    for split, of_split in splits.items():
        if isinstance(of_split, Mapping) and of_split.get("dialogue"):
            message = f"the published layout has no dialogues, but split `{split}` asks several turns"
            yield "models", name, ("recorded",), message
            continue
        try:
            found = split_folder(folder, split)
        except UserError as error:
            yield "models", name, ("recorded",), str(error)
            continue
        if judged and not Path(found, JUDGE_SCORES).is_file():
            yield (
                "models",
                name,
                ("recorded",),
                f"there is no {JUDGE_SCORES} in {found}, which a judge of this study reads",
            )
