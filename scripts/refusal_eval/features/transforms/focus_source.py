"""Where the word comes from that stands for `{focus}` in the text of a transform, if not from the data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from refusal_eval.config.shapes import Entry, Slug
from refusal_eval.core.texts import nfkc

FOCUS = "focus"  # the field that it stands for


class FocusSource(Entry):
    """A word of each prompt that an attribution ranks first (docs/how-to/attributions.md)."""

    attribution: Slug | Annotated[list[Slug], Field(min_length=1)] = Field(
        description="Attribution of the study, or several: one for each split that the model is asked."
    )

    @property
    def names(self) -> list[str]:
        """The attributions."""
        return [self.attribution] if isinstance(self.attribution, str) else list(self.attribution)


def first_words(rows: Iterable[Mapping[str, Any]]) -> dict[str, str | None]:
    """Return the word of the greatest value of each prompt, by the prompt's id.

    None where no value is above 0, for such a word adds nothing to the score, where different words share the greatest
    one, and where there are no values.

    Args:
        rows: values of words: `prompt_id`, and `units` with `word` and `value`.
    """
    return {row["prompt_id"]: _first_word(row["units"]) for row in rows}


def _first_word(units: Sequence[Mapping[str, Any]]) -> str | None:
    values = [one["value"] for one in units]
    if not values or None in values or not math.isfinite(greatest := max(values)) or greatest <= 0:
        return None
    first = [one["word"] for one in units if one["value"] == greatest]
    return first[0] if len({nfkc(word).casefold() for word in first}) == 1 else None
