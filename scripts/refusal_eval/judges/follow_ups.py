"""What is asked after the first requests of a file: of a model's dialogues, and of a judge's votes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from refusal_eval.ask.requests import RequestFile

if TYPE_CHECKING:
    from refusal_eval.ask.turns import Following


def following(file: RequestFile, tokenizer_folder: str | None) -> Following:
    """Return what is asked after the first requests of a file.

    Args:
        file: the request file of a cell with dialogues, or with votes that may be asked again.
        tokenizer_folder: folder of the engine's tokenizer; None for an engine that takes messages.
    """
    # Here, as rendering is heavy and the workflow, which asks whether anything is missing, seldom needs it.
    if file.retries is None:
        from refusal_eval.ask.turns import Turns

        return Turns(file, tokenizer_folder)
    from refusal_eval.judges.vote_retries import Retries

    return Retries(file, tokenizer_folder)
