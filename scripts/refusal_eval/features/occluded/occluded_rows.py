"""The source of rows `occluded`: the prompts of a split, each with one word or sentence left out."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from refusal_eval.config.shapes import Slug
from refusal_eval.config.source_entries import RowSource
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_jsonl
from refusal_eval.core.texts import is_blank
from refusal_eval.data.text_units import UNITS, without

KEPT = ("word", "begin", "end")
# About how many tokens one of them has, for a plan.
_TOKENS = {"word": 1.35, "sentence": 20.0}


class OccludedRows(RowSource):
    """The prompts of another split, each as often as it has words (or sentences), with one of them left out. No model
    is asked for them. Their columns are `parent`, `word`, `begin` and `end`, and what the other split keeps."""

    fetched: ClassVar[bool] = False
    own_columns: ClassVar[tuple[str, ...]] = KEPT

    kind: Literal["occluded"]
    split: Slug = Field(
        description="The split whose prompts they are, as its own `sample` leaves them; `prompts_per_split` counts its "
        "prompts. The study need not evaluate it. Of a conversation the last turn of the user is changed."
    )
    unit: Literal["word", "sentence"] = Field(
        "word",
        description="What is left out. A Chinese character and an emoji are words, punctuation is none. A prompt of "
        "one unit, which would be empty without it, gives no row.",
    )

    @property
    def made_of(self) -> str:
        return self.split

    @property
    def name(self) -> str:
        return f"{self.split} without one {self.unit}"

    @property
    def origin(self) -> str:
        return f"{self.kind} {self.split}"

    def in_words(self, quoted: Callable[[str], str], sha256: str = "") -> str:
        return f"the prompts of {quoted(self.split)}, with each {self.unit} left out in turn"

    def rows_of_each(self, tokens: float) -> float:
        return max(1.0, tokens / _TOKENS[self.unit])

    def own_rows(self, path: str, *read: str) -> list[dict[str, Any]]:
        """Return a row for each unit of each prompt in a file of prompts.

        Raises:
            UserError: if no prompt has two units.
        """
        rows = [row for prompt in read_jsonl(path) for row in occlusions(prompt, self.unit)]
        if not rows:
            raise UserError(
                f"no prompt of split `{self.split}` has more than one {self.unit}, so that none can be left out"
            )
        return rows


def occlusions(prompt: Mapping[str, Any], unit: str) -> list[dict[str, Any]]:
    """Return the rows of one prompt: each without one unit of the last turn of the user.

    `begin` and `end` count characters (code points) in the text of that turn, `word` is what stands between them.
    """
    *before, last = prompt["messages"]
    text = last["content"]
    kept = prompt["source"].get("kept", {})
    own = {"parent": prompt["id"], "cluster": prompt["cluster"], "category": prompt["category"]}
    return [
        {**kept, **own, "word": text[span.begin : span.end], "begin": span.begin, "end": span.end}
        | {"messages": [*before, {**last, "content": left}]}
        for span in UNITS[unit](text)
        if not is_blank(left := without(text, span))
    ]
