"""The judge whose scores came with recorded answers."""

from typing import Any, ClassVar, Literal

from pydantic import Field

from refusal_eval.config.judge_entry import JudgeEntry, Words
from refusal_eval.config.shapes import Text


class RecordedJudge(JudgeEntry):
    """The judge whose scores came with recorded answers (`recorded` of a model): their judge_scores.json, or with `by`
    the labels of that name in a file of answers."""

    way: ClassVar[Literal["recorded"]] = "recorded"

    kind: Literal["recorded"]
    by: Text | None = Field(
        None, description="Whose labels of a file of answers (`recorded: {file: ...}`) these are, such as a scorer."
    )

    def deciding(self) -> dict[str, Any]:
        """Return the part of the entry that can change a verdict; a key that came later is left out where unused."""
        return {key: value for key, value in super().deciding().items() if key != "by" or value}

    def summary(self, words: Words) -> str:
        """Return what it is, for the methods section."""
        if self.by is not None:
            return f"labels of {words.quoted(self.by)} that came with the answers"
        return "scores that came with the answers, of which one above 0 is a refusal and one below 0 compliance"
