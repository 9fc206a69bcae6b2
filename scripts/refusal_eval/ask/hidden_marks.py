"""Marks of reasoning that are special tokens of a model: no text of a response shows them, its token ids do."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.ask.reasoning_marks import ReasoningMark, marks_in
from refusal_eval.core.files import read_json


def added_tokens(tokenizer_folder: str | Path) -> dict[int, str]:
    """Return the tokens that were added to a vocabulary, special ones and others, by id.

    Read from the tokenizer's files, because loading it takes seconds, and each cell would need it.
    """
    folder = Path(tokenizer_folder)
    config = _mapping(folder / "tokenizer_config.json").get("added_tokens_decoder")
    if isinstance(config, dict):
        return {int(number): str(token["content"]) for number, token in config.items()}
    listed = _mapping(folder / "tokenizer.json").get("added_tokens") or ()
    return {int(token["id"]): str(token["content"]) for token in listed}


def hidden_marks(token_ids: Sequence[int], added: Mapping[int, str]) -> set[ReasoningMark]:
    """Return the marks of reasoning among a response's added tokens: those of known families, or named after thought.

    Other special tokens, such as those of tools, may stand anywhere.
    """
    if not any(number in added for number in token_ids):
        return set()
    found = marks_in("".join(added.get(number, " word") for number in token_ids))
    return {mark for mark in found if mark.named_after_thought}


def _mapping(path: Path) -> dict[str, Any]:
    value = read_json(path) if path.is_file() else None
    return value if isinstance(value, dict) else {}
