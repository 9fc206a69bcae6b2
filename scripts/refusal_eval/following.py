"""What is asked after the first requests of a file: of a model's dialogues, and of a judge's votes."""

from __future__ import annotations

from refusal_eval.judges.retries import Retries
from refusal_eval.requests import RequestFile
from refusal_eval.turns import Following, Turns


def following(file: RequestFile, tokenizer_folder: str) -> Following:
    """Return what is asked after the first requests of a file.

    Args:
        file: the request file of a cell.
        tokenizer_folder: folder of the engine's tokenizer.
    """
    return Turns(file, tokenizer_folder) if file.retries is None else Retries(file, tokenizer_folder)
