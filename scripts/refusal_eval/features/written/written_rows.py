"""The source of rows `written`: what a model writes from each prompt of another split."""

import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field, model_validator

from refusal_eval.config.shapes import Entry, FilePath, Number, Slug, Text, Whole
from refusal_eval.config.source_entries import AnswersRead, Fate, RowSource
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_jsonl, shown_path
from refusal_eval.core.states import REFUSAL, place_of
from refusal_eval.core.text_runs import ECHO_WORDS
from refusal_eval.features.written.filled_rows import FILLED_IN
from refusal_eval.features.written.keyword_refusals import LIST_FILES, keyword_refusals
from refusal_eval.features.written.writing_template import WritingTemplate
from refusal_eval.features.written.written_states import STATES, WRITTEN, Checking, Parsing, row_state

STATE, SAMPLE, PARENT_TEXT, ANSWER = "state", "sample", "parent_text", "answer"
KEPT = (STATE, SAMPLE)
OF_ITS_OWN = [*KEPT, PARENT_TEXT, ANSWER]
ASKED = "{}.asked"  # the split with what the writer is asked


class Parse(Entry):
    """Where in a writer's answer the text of a row is. Default: all of it, without quotes around it."""

    model_config = ConfigDict(serialize_by_alias=True)

    after: Text | None = Field(None, description="What follows this text, where it stands last.")
    json_key: Text | None = Field(
        None, alias="json", description="The text at this key of a JSON object; of several the first that has it."
    )
    first_line: bool = Field(False, description="Only the first line that is not blank.")

    @model_validator(mode="after")
    def _one_line_of_text(self) -> "Parse":
        if self.json_key is not None and self.first_line:
            raise ValueError("`first_line` is for plain text; leave it out with `json`")
        return self


class Checks(Entry):
    """What a text must be to pass for a written prompt, besides being no refusal, no copy and no echo."""

    at_least: Number | None = Field(
        None, gt=0, lt=1, description="The least likeness to the prompt that it is made from (words in common, 0 to 1)."
    )
    at_most: Number | None = Field(None, gt=0, lt=1, description="The largest likeness to it.")
    question: bool = Field(False, description="Of a prompt with a question mark the text must have one.")
    without: list[Text] | None = Field(
        None, min_length=1, description="Columns of the other split whose words the text may not hold, such as `focus`."
    )


class WrittenRows(RowSource):
    """What a model of the catalogue writes from each prompt of another split: a row for each prompt and sample, with
    the columns `state`, `sample` and, if named in `columns.keep`, `parent_text` and `answer`, besides what the other
    split keeps. Only rows whose `state` is `written` hold a prompt that was written."""

    fetched: ClassVar[bool] = False
    own_columns: ClassVar[tuple[str, ...]] = KEPT

    kind: Literal["written"]
    split: Slug = Field(
        description="The split whose prompts are given to the writer. The study need not evaluate it. Of a "
        "conversation the last turn of the user is written anew."
    )
    by: Slug = Field(description="Model of the catalogue that writes. The study need not evaluate it.")
    template: FilePath = Field(
        description="A Jinja file, relative to the YAML file that names it, with `{{ prompt }}` (the last turn of the "
        "user), `{{ conversation }}` or columns that the other split keeps, between delimiters with `{{ nonce }}`."
    )
    samples: Whole = Field(1, ge=1, le=1000, description="Rows for each prompt: how often the writer is asked.")
    parse: Parse = Field(Parse(), description="Where in its answer the text is.")
    checks: Checks = Field(Checks(), description="What the text must be.")
    judge: Slug | None = Field(
        None,
        description="Judge of the catalogue that says which answers of the writer are refusals; the study need not "
        "list it. Default: the keyword lists that ship, for English and Chinese.",
    )

    @property
    def made_of(self) -> str:
        return self.split

    def reads(self, split: str) -> list[AnswersRead]:
        asked = ASKED.format(split)
        judged = [] if self.judge is None else [AnswersRead(self.by, asked, self.judge, "by")]
        return [AnswersRead(None, asked), AnswersRead(self.by, asked, key="by"), *judged]

    def brings(self, split: str) -> dict[str, dict[str, Any]]:
        source = {"kind": "filled", "split": self.split, "template": self.template, "samples": self.samples}
        return {ASKED.format(split): {"source": source, "expectation": "varies"}}

    def files(self) -> list[str]:
        lists = [] if self.judge is not None else map(shown_path, LIST_FILES)
        return [self.template, *lists]

    @property
    def name(self) -> str:
        return f"{self.split} written by {self.by}"

    @property
    def origin(self) -> str:
        return f"{self.kind} {self.split}"

    def in_words(self, quoted: Callable[[str], str], sha256: str = "") -> str:
        template = quoted(self.template.rsplit("/", 1)[-1])
        return (
            f"written by {quoted(self.by)} from the prompts of {quoted(self.split)}, asked by the template {template}"
        )

    def rows_of_each(self, tokens: float) -> float:
        return float(self.samples)

    def own_rows(self, path: str, *read: str) -> list[dict[str, Any]]:
        """Return a row for each prompt and sample, in the order of the prompts.

        Args:
            path: the prompts that rows are made from.
            read: what the writer was asked, its answers, and a judge's verdicts if there are any.

        Raises:
            UserError: if an answer is missing.
        """
        asked, answers, *verdicts = read
        refused = (
            {place_of(row) for row in read_jsonl(verdicts[0]) if row.get("label") == REFUSAL} if verdicts else None
        )
        by_prompt: dict[str, list[dict[str, Any]]] = {}
        for row in read_jsonl(answers):
            by_prompt.setdefault(row["prompt_id"], []).append(row)
        template = WritingTemplate(self.template)
        checking = Checking(
            *(self.checks.at_least, self.checks.at_most, self.checks.question, self.checks.without or ()),
            said=template.runs(ECHO_WORDS),
        )
        by_words = keyword_refusals() if refused is None else None
        rows = []
        for question in read_jsonl(asked):
            for answer in sorted(by_prompt.get(question["id"], []), key=lambda row: row["sample"]):
                known = refused is not None and place_of(answer) in refused
                rows.append(self._row(question, answer, by_words or _always(known), checking, template))
        if not rows:
            raise UserError(f"there are no answers of `{self.by}` to write rows of; `{self.split}` has no prompts")
        return rows

    def fates(self, path: str, *read: str) -> list[Fate]:
        """Return what became of every row that the writer was asked for."""
        rows = self.own_rows(path, *read)
        return [Fate(row[STATE], STATES[row[STATE]], row[STATE] == WRITTEN, row["category"]) for row in rows]

    def _row(
        self,
        question: Mapping[str, Any],
        answer: Mapping[str, Any],
        refuses: Callable[[str], bool],
        checking: Checking,
        template: WritingTemplate,
    ) -> dict[str, Any]:
        filled = json.loads(question["source"]["kept"][FILLED_IN])
        kept, nonce = filled["kept"], filled["nonce"]
        *before, last = filled["messages"]
        parsing = Parsing(self.parse.after, self.parse.json_key, self.parse.first_line)
        shown = [str(kept.get(column) or "") for column in template.columns]
        state, text = row_state(answer, last["content"], kept, refuses, parsing, checking, shown, nonce)
        about = {
            "parent": question["source"]["parent"],
            "cluster": question["cluster"],
            "category": question["category"],
        }
        own = {STATE: state, SAMPLE: str(answer["sample"]), PARENT_TEXT: last["content"]}
        own[ANSWER] = str(answer.get("answer") or "")
        # No prompt can be blank, and that of another row is none that was written: the state says so.
        content = text if state == WRITTEN else text or f"[{state}]"
        return {**kept, **own, **about, "messages": [*before, {**last, "content": content}]}


def _always(said: bool) -> Callable[[str], bool]:
    return lambda answer: said
