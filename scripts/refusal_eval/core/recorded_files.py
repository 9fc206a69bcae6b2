"""Paths of one split's files in a folder of the published library's layout."""

from pathlib import Path

from refusal_eval.core.errors import UserError

ANSWERS, JUDGE_SCORES = "answers.json", "judge_scores.json"
IN_ROWS = "battles"  # in place of a folder: the rows of the splits hold the answers, two to each prompt
# What may end the reasoning in the text of a model that writes harmony's channels: its tokens, what is left of them
# where special tokens are dropped, and the mark that an export of ours puts in their place.
CHANNEL_ENDS = ("<|channel|>final<|message|>", "assistantfinal", "</think>")


def split_folder(folder: str | Path, split: str) -> Path:
    """Return the folder of a split in the results of one model: `SPLIT`, or the one `.../SPLIT` with answers below it.

    Raises:
        UserError: if there is none, or more than one.
    """
    found = sorted(path.parent for path in Path(folder).glob(f"**/*/{ANSWERS}") if path.parent.name == split)
    if len(found) == 1:
        return found[0]
    if not found:
        raise UserError(f"there is no {split}/{ANSWERS} in {folder} or below")
    shown = ", ".join(str(path) for path in found[:3])
    raise UserError(f"{folder} has the answers of {split} more than once: {shown}; name the folder of one model")
