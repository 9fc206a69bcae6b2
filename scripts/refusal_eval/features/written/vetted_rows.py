"""The source of rows `vetted`: the prompts of a split of which a model says what is asked for, such as harmless."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from refusal_eval.config.shapes import FilePath, Slug, Text
from refusal_eval.config.source_entries import AnswersRead, Fate, RowSource
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_jsonl, shown_path
from refusal_eval.features.written.keyword_refusals import LIST_FILES, keyword_refusals
from refusal_eval.features.written.written_rows import ASKED, Parse
from refusal_eval.features.written.written_states import (
    FAILED,
    OF_ANSWERS,
    REFUSED,
    STATES,
    UNPARSABLE,
    Parsing,
    bare,
    parsed,
)

SAID = "said"  # the column with what the model said
KEPT, LEFT_OUT = "kept", "left_out"
WORDS = STATES | {KEPT: "kept", LEFT_OUT: "left out"}
ASSUMED_SHARE = 0.5  # of the prompts, for a plan


class VettedRows(RowSource):
    """The prompts of another split of which a model of the catalogue, asked about each by a template, says one of some
    words. They keep their ids, clusters and categories. Their column is `said`, besides what the other split keeps."""

    fetched: ClassVar[bool] = False
    have_ids: ClassVar[bool] = True
    own_columns: ClassVar[tuple[str, ...]] = (SAID,)

    kind: Literal["vetted"]
    split: Slug = Field(description="The split whose prompts they are. The study need not evaluate it.")
    by: Slug = Field(description="Model of the catalogue that is asked. The study need not evaluate it.")
    template: FilePath = Field(
        description="A Jinja file with what is asked of each prompt, as for `written`. It asks for one of the words "
        "below."
    )
    parse: Parse = Field(Parse(), description="Where in its answer the word is.")
    keep: list[Text] = Field(
        min_length=1,
        description="Words that keep a prompt. The text is one of them or none: case, white space and punctuation do "
        "not count.",
    )
    leave_out: list[Text] = Field(
        min_length=1,
        description="Words that leave it out. With any other text nothing is known of a prompt, and it is left out as "
        "`unparsable`.",
    )

    @model_validator(mode="after")
    def _each_word_on_one_side(self) -> "VettedRows":
        kept, left = ({bare(word): word for word in words} for words in (self.keep, self.leave_out))
        if both := sorted(kept.keys() & left.keys()):
            raise ValueError(f"`{kept[both[0]]}` is in `keep` and in `leave_out`")
        return self

    @property
    def made_of(self) -> str:
        return self.split

    def reads(self, split: str) -> list[AnswersRead]:
        asked = ASKED.format(split)
        return [AnswersRead(None, asked), AnswersRead(self.by, asked, key="by")]

    def brings(self, split: str) -> dict[str, dict[str, Any]]:
        source = {"kind": "filled", "split": self.split, "template": self.template, "samples": 1}
        return {ASKED.format(split): {"source": source, "expectation": "varies"}}

    def files(self) -> list[str]:
        return [self.template, *map(shown_path, LIST_FILES)]

    @property
    def name(self) -> str:
        return f"{self.split} vetted by {self.by}"

    @property
    def origin(self) -> str:
        return f"{self.kind} {self.split}"

    def in_words(self, quoted: Callable[[str], str], sha256: str = "") -> str:
        said, template = " or ".join(map(quoted, self.keep)), quoted(self.template.rsplit("/", 1)[-1])
        return (
            f"the prompts of {quoted(self.split)} of which {quoted(self.by)}, asked by the template {template}, said "
            f"{said}"
        )

    def rows_of_each(self, tokens: float) -> float:
        return ASSUMED_SHARE

    def own_rows(self, path: str, *read: str) -> list[dict[str, Any]]:
        """Return the prompts that are kept.

        Args:
            path: the prompts that were asked about.
            read: what the model was asked, and its answers.

        Raises:
            UserError: if there is none.
        """
        rows = [_row(prompt, text) for prompt, state, text in self._vetted(path, *read) if state == KEPT]
        if not rows:
            raise UserError(
                f"`{self.by}` said {' or '.join(self.keep)} of no prompt of `{self.split}`; look at its answers, and "
                "change the template, `parse`, or the model"
            )
        return rows

    def fates(self, path: str, *read: str) -> list[Fate]:
        """Return what became of every prompt that was asked about."""
        return [
            Fate(state, WORDS[state], state == KEPT, prompt["category"])
            for prompt, state, _ in self._vetted(path, *read)
        ]

    def _vetted(self, path: str, asked: str, answers: str) -> list[tuple[Mapping[str, Any], str, str]]:
        """Return each prompt with its state and what the model said of it."""
        parent_of = {row["id"]: row["source"]["parent"] for row in read_jsonl(asked)}
        of = {parent_of[row["prompt_id"]]: row for row in read_jsonl(answers)}
        refuses = keyword_refusals()
        return [(prompt, *self._reading(of.get(prompt["id"]), refuses)) for prompt in read_jsonl(path)]

    def _reading(self, answer: Mapping[str, Any] | None, refuses: Callable[[str], bool]) -> tuple[str, str]:
        whole = str((answer or {}).get("answer") or "").strip()
        if answer is None or answer["state"] in OF_ANSWERS:
            return (FAILED if answer is None else OF_ANSWERS[answer["state"]]), whole
        text = parsed(whole, Parsing(self.parse.after, self.parse.json_key, self.parse.first_line)) or ""
        for words, state in ((self.keep, KEPT), (self.leave_out, LEFT_OUT)):
            if text and bare(text) in map(bare, words):
                return state, text
        return (REFUSED if whole and refuses(whole) else UNPARSABLE), whole


def _row(prompt: Mapping[str, Any], said: str) -> dict[str, Any]:
    about = {"parent": prompt["source"].get("parent") or prompt["id"], SAID: said}
    kept = prompt["source"].get("kept", {}) | ({"right": prompt["right"]} if "right" in prompt else {})
    return {**kept, **about} | {key: prompt[key] for key in ("id", "messages", "cluster", "category")}
