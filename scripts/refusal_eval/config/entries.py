"""Catalogue entries: models and gold, as users write them in YAML.

Engines are in engine_entry.py, data sets in datasets.py, judges in judge_entry.py.
"""

from __future__ import annotations

import datetime
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, field_validator, model_validator

from refusal_eval.config.change import changes_of
from refusal_eval.config.entry_marks import Marks
from refusal_eval.config.feature_keys import MODEL_KEYS, with_feature_keys
from refusal_eval.config.gold_parts import GoldFlag, GoldSlices
from refusal_eval.config.kinds import LOG_READERS, NameIn
from refusal_eval.config.shapes import (
    TEMPLATE_HELP,
    AnswersFolder,
    ClustersPath,
    Day,
    Entry,
    FileOrFolder,
    Number,
    Slug,
    Template,
    TemplateOptions,
    Text,
    Whole,
    refuse_clusters_without_ids,
    refuse_options_without_template,
)
from refusal_eval.config.source_entries import DataSource
from refusal_eval.core.hints import nearest

Label = Literal["refusal", "partial", "compliance"]
LEAST_TEMPERATURE = 0.01
# Beyond these, hardly a token but the likeliest is left, so that K answers are one.
GREEDY_TEMPERATURE, GREEDY_TOP_P, GREEDY_MIN_P = 0.02, 0.05, 0.9


# ---------------------------------------------------------------- models


class Sampling(Entry):
    """How answers are drawn. Every parameter is sent; nothing is left to the server."""

    max_tokens: Whole = Field(ge=1, description="Longest answer, in tokens (reasoning included).")
    temperature: Number = Field(
        1.0, ge=0, le=10, description="0 (greedy), or at least 0.01. `samples` must be 1 up to 0.02."
    )
    top_p: Number = Field(1.0, gt=0, le=1, description="Nucleus sampling. 1 is off; up to 0.05 is greedy.")
    top_k: Whole = Field(0, ge=0, description="Keep the k likeliest tokens. 0 is off; 1 is greedy.")
    min_p: Number = Field(
        0.0,
        ge=0,
        le=1,
        description="Drop tokens below this share of the likeliest. 0 is off; from 0.9 on it is greedy.",
    )
    presence_penalty: Number = Field(0.0, ge=-2, le=2, description="0 is off.")
    frequency_penalty: Number = Field(0.0, ge=-2, le=2, description="0 is off.")
    repetition_penalty: Number = Field(1.0, gt=0, le=2, description="1 is off.")
    min_tokens: Whole = Field(0, ge=0, description="Shortest answer, in tokens.")
    stop: list[Text] = Field([], description="Strings that end an answer.")

    @property
    def greedy_by(self) -> list[tuple[str, str]]:
        """The parameters under which every answer to a prompt is the same, or nearly, each with how it is said."""
        greedy = {
            # Between 0 and the least there is a mistake of its own.
            "temperature": self.temperature == 0 or LEAST_TEMPERATURE <= self.temperature <= GREEDY_TEMPERATURE,
            "top_k": self.top_k == 1,
            "top_p": self.top_p <= GREEDY_TOP_P,
            "min_p": self.min_p >= GREEDY_MIN_P,
        }
        return [(name, f"{name} {getattr(self, name):g}") for name, is_so in greedy.items() if is_so]

    @model_validator(mode="after")
    def _some_length_is_left(self) -> Sampling:
        if self.min_tokens > self.max_tokens:
            raise ValueError(f"min_tokens ({self.min_tokens}) is more than max_tokens ({self.max_tokens})")
        return self

    @field_validator("temperature")
    @classmethod
    def _is_not_raised_by_vllm(cls, temperature: float) -> float:
        if 0 < temperature < LEAST_TEMPERATURE:
            raise ValueError(
                f"vLLM raises a temperature between 0 and {LEAST_TEMPERATURE} to {LEAST_TEMPERATURE}; "
                f"write 0 for greedy decoding, or at least {LEAST_TEMPERATURE}"
            )
        return temperature


class Reasoning(Entry):
    """How the reasoning of a model that thinks before it answers is separated from the answer."""

    format: Literal["marks", "harmony"] = Field(
        "marks",
        description="`marks` around the reasoning, or `harmony`: the channels of gpt-oss, where `final` is the answer.",
    )
    start: Text | None = Field(
        None,
        description="Mark that opens the reasoning, e.g. `<think>`; also needed if the template opens it. Without it "
        "every response counts as reasoning up to `end`, and a response without `end` has no answer.",
    )
    end: Text | None = Field(
        None,
        description="Mark that ends the reasoning, e.g. `</think>`. Only what follows is the answer. Needed with "
        "`marks`. A mark that is a token of the model, or contains special tokens, is found by its token ids; any "
        "other mark is found in the text.",
    )

    @model_validator(mode="after")
    def _marks_or_channels(self) -> Reasoning:
        if self.format == "marks" and self.end is None:
            raise ValueError("`end` is missing: the mark that ends the reasoning, e.g. `</think>`")
        if self.format == "harmony" and (self.start, self.end) != (None, None):
            raise ValueError("`format: harmony` has marks of its own; leave `start` and `end` out")
        return self


class RecordedFile(Entry):
    """A file with answers that were drawn elsewhere: a log of another tool, a table, neutral rows."""

    file: FileOrFolder = Field(
        description="The file (docs/how-to/judge_answers.md), relative to the YAML file that names it; or a folder, "
        "such as an export, in which all files of answers are read."
    )
    model: Text | None = Field(
        None, description="Whose answers of the file these are, as it calls the model. Not needed if it has one model."
    )
    reader: Annotated[str, NameIn(LOG_READERS)] | None = Field(
        None, description="What reads the file. Default: the first reader that knows the file by its beginning."
    )
    columns: dict[Slug, Text | list[Text]] = Field(
        {}, description="Which columns of a table hold what, such as `{prompt: question, answer: reply}`."
    )
    may_block: bool | None = Field(
        None,
        description="Whether some of the answers were blocked: the study then has both refusal rates, and who refused "
        "(docs/reference/who_refused.md). Default: found by reading the file, each time that the study is planned.",
    )

    @property
    def named_columns(self) -> dict[str, list[str]]:
        """The columns, as readers take them."""
        return {field: [names] if isinstance(names, str) else list(names) for field, names in self.columns.items()}


def _need_no_engine_in_files(schema: dict[str, Any]) -> None:
    """Let a JSON schema of models allow those whose answers are in a file."""
    drawn = ["engine", "sampling"]
    schema["required"] = [key for key in schema["required"] if key not in drawn]
    in_file = {"required": ["recorded"], "properties": {"recorded": {"type": "object"}}}
    schema["anyOf"] = [{"required": drawn}, in_file]


@with_feature_keys(MODEL_KEYS)
class Model(Entry):
    """What is evaluated: an engine with a system prompt, chat-template options and sampling."""

    model_config = ConfigDict(json_schema_extra=_need_no_engine_in_files)

    engine: Slug | None = Field(
        description="Name of an engine of the catalogue. Not needed with `recorded: {file: ...}`."
    )
    label: str | None = Field(None, description="Name in tables and figures. Default: the entry's name.")
    system_prompt: str | None = Field(None, description="System message before every prompt.")
    template: Template = Field("default", description=TEMPLATE_HELP)
    template_options: TemplateOptions = Field(
        {}, description="Variables for the chat template, e.g. `enable_thinking: false`."
    )
    date: Day = Field(
        datetime.date(2026, 1, 1),
        description="Today, for templates that insert the date. Fixed, or request keys would change daily.",
    )
    sampling: Sampling | None = Field(description="How answers are drawn. Not needed with `recorded: {file: ...}`.")
    prefill: Text | None = Field(
        None,
        description="Text with which the model's reply is made to begin, control tokens included, such as the refusal "
        "token of a model that was trained with one. It is behind the prompt and no part "
        "of the answer, so that judges do not see it. Not for dialogues.",
    )
    reasoning: Reasoning | None = Field(
        None,
        description="Marks of the reasoning. Read from stored responses: no GPU job when changed, except that later "
        "turns of dialogues, and models steered by a direction of its answers, are asked again.",
    )
    judged_whole: bool = Field(
        False,
        description="Judge whole responses, even if many hold what looks like marks of reasoning, which else stops the "
        "study: as where prompts ask for answers in tags of their own. In no key.",
    )
    unverified: list[Text] = Field(
        [],
        description="What could not be verified when the entry was written; `refusal-eval plan` shows it. In no key.",
    )
    recorded: AnswersFolder | RecordedFile | None = Field(
        None,
        description="Answers that were drawn elsewhere: they are read, and no engine is used. `{file: ...}` for a log "
        "of another tool, a table or neutral rows. Or a folder in the published library's layout, with "
        "`SPLIT/answers.json`, there or below, for every split of the study (docs/how-to/recorded_answers.md). Marks "
        "of `reasoning` are looked for in the text. Or `battles`: the two published answers in each row of splits that "
        "have `battles` (docs/reference/battles.md).",
    )

    @property
    def engine_needs(self) -> tuple[str, ...]:
        """What its engine must be able to do, see `Capability`."""
        of_changes = (need for change in changes_of(self) for need in change.engine_needs)
        return ("writes_text", *dict.fromkeys(of_changes))

    @property
    def recorded_file(self) -> RecordedFile | None:
        """The file that its answers are in, where they are in one."""
        return self.recorded if isinstance(self.recorded, RecordedFile) else None

    @property
    def blocks_in_file(self) -> bool:
        """Whether answers in its file were blocked."""
        return self.recorded_file is not None and bool(self.recorded_file.may_block)

    @property
    def asks_engine(self) -> bool:
        """Whether its engine is asked for its answers, and not their file; then it needs weights and what draws."""
        return not self.recorded

    @property
    def engine_name(self) -> str:
        """Its engine, of a model that has one."""
        assert self.engine is not None
        return self.engine

    @property
    def longest(self) -> int | None:
        """The longest answer in tokens, reasoning included; None where nobody says it."""
        return self.sampling.max_tokens if self.sampling else None

    @model_validator(mode="before")
    @classmethod
    def _nothing_is_drawn(cls, value: Any) -> Any:
        """Ask for no engine and no sampling where answers are in a file."""
        in_file = isinstance(value, dict) and isinstance(value.get("recorded"), dict | RecordedFile)
        return {"engine": None, "sampling": None} | value if in_file else value

    @model_validator(mode="after")
    def _drawn_or_recorded(self) -> Model:
        for key in ("engine", "sampling"):
            if getattr(self, key) is None and self.recorded_file is None:
                raise ValueError(f"`{key}` is missing; only a model with `recorded: {{file: ...}}` needs none")
        return self

    @model_validator(mode="after")
    def _options_of_a_template(self) -> Model:
        refuse_options_without_template(self.template, self.template_options)
        return self

    @model_validator(mode="after")
    def _whole_or_parted(self) -> Model:
        if self.judged_whole and self.reasoning is not None:
            raise ValueError("`judged_whole` is for models without `reasoning`; leave one of them out")
        return self


# ---------------------------------------------------------------- gold


class GoldColumns(Entry):
    """Which columns of a gold source hold what."""

    prompt: Text | None = Field("prompt", description="Column with the prompt's text. Not used if `messages` is given.")
    messages: Text | None = Field(
        None, description="Column with a list of {role, content} messages, instead of `prompt`."
    )
    answer: Text = Field("answer", description="Column with the labelled answer.")
    label: Text = Field("label", description="Column with their label.")
    cluster: Text | None = Field(None, description="Column that groups rows that belong together. Default: the prompt.")
    answering_model: Text | None = Field(None, description="Column with the model that answered.")
    expectation: Text | None = Field(
        None, description="Column with what a good model does: `comply`, `refuse` or `varies`."
    )
    language: Text | None = Field(
        None, description="Column with the prompt's language. Default: the script in which most of it is written."
    )
    id: Text | None = Field(None, description="Column with the source's id; kept for tracing.")
    weight: Text | None = Field(
        None,
        description="Column with a number above 0: how many answers the row represents, 1 / its probability of having "
        "been labelled. Judge cards then count weights instead of rows. Rows of different answering models are kept "
        "separate.",
    )

    @model_validator(mode="after")
    def _a_prompt_or_messages(self) -> GoldColumns:
        if self.messages is None and self.prompt is None:
            raise ValueError("name `prompt` or `messages`")
        return self


class AnswerColumns(Entry):
    """Columns of one answering model, in a source whose rows hold the answers of several."""

    answer: Text = Field(description="Column with its answer.")
    label: Text = Field(description="Column with the label of that answer.")


class HumanKappa(Entry):
    """How well people agree with each other on a gold set: the ceiling of every judge."""

    statistic: Text = Field("Cohen's kappa", description="What the numbers are, such as `Fleiss' kappa`.")
    broad: Number | None = Field(None, ge=-1, le=1, description="Refusal and partial against compliance.")
    strict: Number | None = Field(None, ge=-1, le=1, description="Refusal against everything else.")
    three_class: Number | None = Field(None, ge=-1, le=1, description="Over the three labels.")
    source: Text = Field(description="Where that is published.")


ANCHOR_PARTS = ("flag", "slice", "expectation")  # keys that say of which part of a gold set an anchor is


class Anchor(Entry):
    """What another judge reaches on this gold set, as published: its kappa, its F1 or both."""

    name: Text = Field(description="The judge.")
    kappa: Number | None = Field(None, ge=-1, le=1, description="Its kappa with people.")
    f1: Number | None = Field(None, ge=0, le=1, description="Its F1, with refusals as the positive class.")
    reading: Literal["broad", "strict", "three_class"] = Field("broad", description="Over which labels.")
    judge: Slug | None = Field(
        None, description="The catalogue's name of this judge, whose card then says whether its own F1 meets this one."
    )
    flag: Slug | None = Field(None, description="The flag, of `flags`, that the F1 is of. Default: refusal.")
    slice: Text | None = Field(None, description="The slice, of `slices`, that it is of. Default: all rows.")
    expectation: Literal["comply", "refuse", "varies"] | None = Field(
        None, description="The expectation of the prompts that it is of. Default: all rows."
    )
    source: Text = Field(description="Where that is published.")

    @model_validator(mode="after")
    def _says_something(self) -> Anchor:
        if self.kappa is None and self.f1 is None:
            raise ValueError("name `kappa` or `f1`, or both")
        part = next((key for key in ("judge", *ANCHOR_PARTS) if getattr(self, key) is not None), None)
        if part and (self.f1 is None or self.kappa is not None):
            raise ValueError(f"`{part}` is for an anchor of `f1` alone")
        if self.flag and (self.expectation or self.reading != "broad"):
            raise ValueError("a `flag` is raised or not: leave `expectation` and `reading` out")
        if self.slice and self.expectation:
            raise ValueError("cards measure slices and expectations apart; leave `slice` or `expectation` out")
        if self.f1 is not None and self.reading == "three_class":
            raise ValueError("`f1` is of two classes; `reading` must be `broad` or `strict`")
        return self

    def published(self) -> dict[str, Any]:
        """Return it in the form of a judge card; keys that came later only where they say something."""
        return {k: v for k, v in self.model_dump().items() if v is not None or k not in ("judge", *ANCHOR_PARTS)}


class Gold(Marks):
    """Answers with labels: of people, of the author who wrote them, or of a model. Every judge of the study is measured
    on them."""

    model_config = ConfigDict(serialize_by_alias=True)

    source: DataSource = Field(description="Where the rows come from.")
    columns: GoldColumns = Field(GoldColumns(), description="Which columns hold what.")
    labels: dict[str, Label] = Field(
        min_length=1, description="What each of the source's labels means: refusal, partial or compliance."
    )
    kinds: dict[str, Slug] = Field(
        {},
        description="The kind of answer that a label of the source means, as judges with a label set of their own "
        "call it (`kinds` of a judge): their cards then say how well they agree on it.",
    )
    left_out: list[Text] = Field(
        [],
        description='Labels of the source of rows that are left out (`"null"`: rows without a label); logged.',
    )
    denied_premises: list[Text] = Field(
        [],
        description="Labels of the source, all in `labels`, for answers that deny the prompt's premise. Some gold "
        "calls them refusals and some compliance, so judge cards also measure without them.",
    )
    partial_is: Literal["refusal", "partial", "compliance", "unlabelled"] | None = Field(
        None,
        description="What an answer that refuses and then helps counts as in this gold; `unlabelled`: it has none, or "
        "leaves them out. It is a convention, in which sources differ: where labels tell such answers apart "
        "(`partial`), judge cards also measure without them. Default: not known.",
    )
    class_: Literal["refusal", "fulfilment"] = Field(
        "refusal",
        alias="class",
        description="What the labels say of an answer: whether it refuses (`refusal`), or whether it does what was "
        "asked (`fulfilment`). A friendly text instead of the one that was asked for is a refusal only in the second.",
    )
    two_labels: Literal["error", "left_out"] = Field(
        "error",
        description="What becomes of equal answers of a model to a prompt that the source labels in two ways: the run "
        "stops, or all of them are left out and the log says how many.",
    )
    answers: dict[Text, AnswerColumns] = Field(
        {},
        description="For rows with answers of several models: the columns of each model, by its name. "
        "`columns.answer`, `columns.label` and `columns.answering_model` are then not used.",
    )
    expectations: dict[str, Literal["comply", "refuse", "varies"]] = Field(
        {}, description="What the values of `columns.expectation` mean, if they are other words."
    )
    expectation: Literal["comply", "refuse", "varies"] | None = Field(
        None, description="What a good model does with all prompts of this gold, instead of `columns.expectation`."
    )
    clusters: ClustersPath | None = Field(
        None,
        description="CSV with the columns `id` and `cluster`: which rows (by `columns.id`) belong together, such as a "
        "prompt and its contrast twin. Relative to the YAML file that names it.",
    )
    flags: dict[Slug, GoldFlag] = Field(
        {}, description="Labels for what judges flag beside refusals, by the name of the flag; cards then have its F1."
    )
    slices: GoldSlices | None = Field(None, description="Parts of the rows that cards measure each by itself.")
    raters: Whole | None = Field(
        None,
        ge=1,
        description="Number of people who labelled each row. Needed unless `written_to_label` or `labelled_by_model` "
        "says that none did.",
    )
    written_to_label: bool = Field(
        False,
        description="Whether an author wrote the answers to be what their labels say, so that no rater labelled them. "
        "They then never count as labels of people: not in captions, tables, judge cards and methods, and for no "
        "`floor`.",
    )
    labelled_by_model: Text | None = Field(
        None,
        description="The model that gave the labels, where people gave none, such as `GPT-4`. Like an author's, its "
        "labels never count as those of people.",
    )
    seen_by: list[Slug] = Field(
        [],
        description="Judges that were chosen or tuned on this gold, so that their numbers here are too kind; also said "
        "of panels and cascades with such a judge.",
    )
    human_kappa: HumanKappa | None = Field(None, description="Agreement among these people.")
    language_of: Literal["prompt", "answer"] = Field(
        "prompt",
        description="Whose language judge cards group rows by: `answer` where answers to prompts in one language are "
        "in several.",
    )
    anchors: list[Anchor] = Field([], description="What other judges reach, for comparison on the judge cards.")
    label: str | None = Field(None, description="Name in tables. Default: the entry's name.")
    expected_rows: Whole | None = Field(
        None, ge=1, description="Rows that the source must have; any other number fails."
    )

    @model_validator(mode="after")
    def _keys_that_belong_together(self) -> Gold:
        refuse_clusters_without_ids(self)
        if self.raters is None and self.is_peoples:
            raise ValueError(
                "name `raters`: how many people labelled each row, or `written_to_label: true`, or `labelled_by_model`"
            )
        if self.written_to_label and self.labelled_by_model:
            raise ValueError("`written_to_label` and `labelled_by_model` both say whose labels they are; leave one out")
        said = "written_to_label" if self.written_to_label else "labelled_by_model"
        for name in () if self.is_peoples else ("raters", "human_kappa"):
            if getattr(self, name) is not None:
                raise ValueError(f"`{said}` says that no rater labelled the rows; leave `{name}` out")
        if self.partial_is in ("refusal", "compliance", "unlabelled") and "partial" in self.labels.values():
            raise ValueError(f"`labels` has partial refusals, so `partial_is: {self.partial_is}` cannot be")
        if self.partial_is == "partial" and "partial" not in self.labels.values():
            raise ValueError("`partial_is: partial` needs a label that `labels` maps to partial")
        if self.expectations and self.columns.expectation is None:
            raise ValueError("`expectations` needs `columns.expectation`: the column with those values")
        if self.expectation is not None and self.columns.expectation is not None:
            raise ValueError("`expectation` holds for all rows, `columns.expectation` for each; leave one out")
        if odd := sorted(self.kinds.keys() - self.labels.keys()):
            raise ValueError(f"`kinds` names {odd[0]!r}, which is not one of `labels`")
        for anchor in self.anchors:
            if anchor.flag is not None and anchor.flag not in self.flags:
                message = f"`anchors` has one of the flag `{anchor.flag}`, which `flags` does not name"
                raise ValueError(message + nearest(anchor.flag, self.flags))
            slices = [] if self.slices is None else list(self.slices.names.values())
            if anchor.slice is not None and anchor.slice not in slices:
                message = f"`anchors` has one of the slice `{anchor.slice}`, which `slices` does not name"
                raise ValueError(message + nearest(anchor.slice, slices))
        if self.language_of == "answer" and self.columns.language is not None:
            raise ValueError("`columns.language` says the language of each prompt, so `language_of: answer` cannot be")
        both = sorted(set(self.left_out) & set(self.labels))
        if both:
            raise ValueError(f"`left_out` and `labels` both name {both[0]!r}")
        if unknown := sorted(set(self.denied_premises) - set(self.labels)):
            raise ValueError(f"`denied_premises` names {unknown[0]!r}, which `labels` does not map")
        return self

    @property
    def is_peoples(self) -> bool:
        """Whether people gave the labels, and neither the author of the answers nor a model did."""
        return not self.written_to_label and self.labelled_by_model is None

    @property
    def whose(self) -> dict[str, Any]:
        """Whose labels they are, in the form of a judge card; empty for people's."""
        if self.written_to_label:
            return {"written_to_label": True}
        return {"labelled_by_model": self.labelled_by_model} if self.labelled_by_model else {}
