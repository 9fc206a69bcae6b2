"""The transform `written`: a rewriting of each prompt, out of another split."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from pydantic import Field

from refusal_eval.config.problems import Mistake
from refusal_eval.config.shapes import Slug
from refusal_eval.core.errors import UserError
from refusal_eval.features.transforms.transform_kind import (
    NOT_WRITTEN,
    AskedMessages,
    PlainPrompt,
    Transform,
    last_turn,
)

STATE, WRITTEN = "state", "written"  # a column of rewritings that says what became of them, and its good value


class WrittenTransform(Transform):
    """A rewriting of each prompt: a row of another split, whose column `parent` names the prompt."""

    kind: Literal["written"]
    split: Slug = Field(
        description="Split with the rewritten prompts; its `columns.parent` names the column with the id of the prompt "
        "that each of them rewrites. If it keeps a column `state`, rows with another value than `written` do not "
        "count. A prompt without a rewriting, or whose rewriting is the prompt itself, keeps its own text. Of a "
        "dialogue the last turn of the user is rewritten. The study need not evaluate the split."
    )

    def splits_read(self) -> list[str]:
        return [self.split]

    def mistakes(self, study: Any, model: Any) -> Iterator[Mistake]:
        if unknown := study.catalogue.lacks("split", self.split):
            yield ("split",), unknown
        entry = study.catalogue.valid["splits"].get(self.split)
        if entry is not None and entry.columns.parent is None:
            why = f"`{self.split}` does not say which prompts its rows rewrite"
            yield ("split",), f"{why}; name their column of prompt ids as `parent` in its `columns`"
        if entry is not None and entry.dialogue is not None:
            yield ("split",), f"`{self.split}` has dialogues; a rewriting is one prompt"

    def transformer(self, read: Sequence[Sequence[PlainPrompt]]) -> Callable[[PlainPrompt], AskedMessages | str]:
        rewritten: dict[str, str] = {}
        for row in read[0]:
            source = row["source"]
            if source.get("kept", {}).get(STATE, WRITTEN) != WRITTEN:
                continue
            if source["parent"] in rewritten:
                raise UserError(
                    f"split {self.split} has two rewritings of the prompt {source['parent']} (the second: row "
                    f"{source['row']}), and a model is asked one; choose with `where`"
                )
            rewritten[source["parent"]] = row["messages"][last_turn(row["messages"])]["content"]
        return lambda prompt: _replaced(prompt, rewritten.get(prompt["id"]))

    def in_words(self, quoted: Callable[[str], str], label: Callable[[str], str]) -> str:
        return f"each prompt rewritten, as in the split {label(self.split)}"


def _replaced(prompt: PlainPrompt, text: str | None) -> AskedMessages | str:
    if text is None:
        return NOT_WRITTEN
    place = last_turn(prompt["messages"])
    return [
        {**message, "content": text if number == place else message["content"]}
        for number, message in enumerate(prompt["messages"])
    ]
