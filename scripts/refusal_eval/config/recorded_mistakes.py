"""What recorded answers need of the study they are in: their files, no dialogues, and verdicts only where they are."""

import os
from collections.abc import Iterator
from pathlib import Path

from refusal_eval.config.draft import Draft
from refusal_eval.config.entries import Model
from refusal_eval.config.problems import Mistake
from refusal_eval.core.errors import UserError
from refusal_eval.core.recorded_files import CHANNEL_ENDS, JUDGE_SCORES, split_folder


def recorded_mistakes(draft: Draft) -> Iterator[Mistake]:
    """Yield what is wrong with the recorded models and judges of a study."""
    readers = [name for name, judge in draft.judges.items() if judge.way == "recorded"]
    for name, model in draft.models.items():
        if model.recorded:
            yield from ((("models", name, *path), text) for path, text in _of_entry(model))
            for text in _wrong_with_answers(model.recorded, draft, judged=bool(readers)):
                yield ("models", name, "recorded"), text
    asked = [name for name, model in draft.models.items() if not model.recorded]
    for reader in readers:
        here = ("judges", reader, "kind")
        if asked:
            message = f"reads verdicts that came with recorded answers, and model `{asked[0]}` has none (`recorded`)"
            yield here, message
        if draft.names("gold"):
            yield here, "cannot be asked about gold; leave `gold` out of a study with this judge"


def _of_entry(model: Model) -> Iterator[Mistake]:
    if model.reasoning is not None and model.reasoning.format == "harmony":
        message = (
            "recorded answers have no token ids, which channels are told by; write the text that ends the reasoning in "
            f"these answers, e.g. `reasoning: {{end: {CHANNEL_ENDS[1]}}}`"
        )
        yield ("reasoning", "format"), message
    if model.lora is not None:
        yield ("lora",), "recorded answers are read and not drawn; leave it out"


def _wrong_with_answers(folder: str, draft: Draft, judged: bool) -> Iterator[str]:
    if not os.path.isdir(folder):
        yield f"there is no folder {folder}"
        return
    for name, split in draft.splits.items():
        if split.dialogue is not None:
            yield f"the published layout has no dialogues, but split `{name}` asks several turns"
            continue
        try:
            found = split_folder(folder, name)
        except UserError as error:
            yield str(error)
            continue
        if judged and not Path(found, JUDGE_SCORES).is_file():
            yield f"there is no {JUDGE_SCORES} in {found}, which a judge of this study reads"
