"""The text of an answer as its tokens come, and the strings that end it. For the engine environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tokenizers.decoders import DecodeStream

UNFINISHED = "\ufffd"  # of a character whose bytes are not all there
CONTEXT = 8  # tokens before the answer that may decide how it begins, for tokenizers without a stream


class StreamedText:
    """The text of one answer. Special tokens are not in it; bytes that are no whole character are held back.

    The tokens of the prompt decide how the first one is written (a space before a word), as they do in vLLM.
    """

    def __init__(self, tokenizer: Any, prompt: Sequence[int]) -> None:
        self.text = ""
        self._tokenizer, self._before, self._ids = tokenizer, list(prompt[-CONTEXT:]), list[int]()
        self._fast: Any = getattr(tokenizer, "backend_tokenizer", None)
        self._stream = DecodeStream(ids=list(prompt), skip_special_tokens=True) if self._fast is not None else None

    def add(self, token: int) -> None:
        """Add a token."""
        if self._stream is not None:
            self.text += self._stream.step(self._fast, token) or ""
            return
        self._ids.append(token)
        before, whole = (
            self._tokenizer.decode(ids, skip_special_tokens=True) for ids in (self._before, [*self._before, *self._ids])
        )
        if not whole.endswith(UNFINISHED):
            self.text = whole[len(before) :]

    def cut_at(self, stops: Sequence[str], before: int) -> str | None:
        """Cut the text before the first of these strings that is in it, and return that; else None.

        Args:
            before: the length of the text when it was last looked at.
        """
        for stop in stops:
            place = self.text.find(stop, max(0, before - len(stop) + 1))
            if place >= 0:
                self.text = self.text[:place]
                return stop
        return None
