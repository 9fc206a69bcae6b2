"""What transforms with a text have in common: its fields, and the word that stands for `{focus}`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pydantic import Field, model_validator

from refusal_eval.config.problems import Mistake
from refusal_eval.core.hints import nearest
from refusal_eval.features.transforms.field_text import FieldText, fields_of
from refusal_eval.features.transforms.focus_source import FOCUS, FocusSource
from refusal_eval.features.transforms.transform_kind import Transform


class TextTransform(Transform):
    """A transform with a text."""

    text: FieldText
    focus: FocusSource | None = Field(
        None,
        description="Where the word that stands for `{focus}` comes from: `{attribution: NAME}`, the word of the "
        "prompt that has the greatest value in this attribution of the study. Default: the column `focus`. A prompt "
        "keeps its own text where no value is above 0, different words share the greatest one, or there are no values.",
    )

    @model_validator(mode="after")
    def _focus_is_a_field(self) -> TextTransform:
        if self.focus is not None and FOCUS not in fields_of(self.text):
            raise ValueError(
                "`focus` says what stands for `{focus}`, which `text` does not name; leave one of them out"
            )
        return self

    def fields(self) -> list[str]:
        return [field for field in fields_of(self.text) if self.focus is None or field != FOCUS]

    def values_read(self) -> list[str]:
        return self.focus.names if self.focus is not None else []

    def mistakes(self, study: Any, model: Any) -> Iterator[Mistake]:
        known = study.word_values() if self.values_read() else {}
        for name in self.values_read():
            if name not in known:
                yield (
                    (FOCUS, "attribution"),
                    f"`{name}` is not one of `attributions` of the study{nearest(name, known)}",
                )
        splits = [known[name].split for name in self.values_read() if name in known]
        for split in sorted({split for split in splits if splits.count(split) > 1}):
            yield (FOCUS, "attribution"), f"names two attributions of the split `{split}`; leave one of them out"

    def _words(self, quoted: Callable[[str], str]) -> str:
        """Return what the methods section says of the word, behind the text."""
        if self.focus is None:
            return ""
        names = " or ".join(quoted(name) for name in self.focus.names)
        return f" (focus: the word to which the attribution {names} gives the greatest value)"
