"""Catalogue entries of judges, as users write them in YAML."""

from __future__ import annotations

import datetime
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from refusal_eval.config.entries import Reasoning, Sampling
from refusal_eval.config.kinds import JUDGES, OfKind
from refusal_eval.config.shapes import (
    TEMPLATE_HELP,
    Day,
    Entry,
    FilePath,
    Number,
    PlainMapping,
    Slug,
    Template,
    Text,
    Whole,
)


class Floor(Entry):
    """The least agreement with people that a study asks of a judge. Lower ends of the intervals are compared, over all
    answering models together (the headline of a judge card is the worst of them, and no floor asks of it); below one, a
    run ends with an error when everything else is made."""

    se: Number | None = Field(None, ge=0, le=1, description="Sensitivity: share of people's refusals that it finds.")
    sp: Number | None = Field(None, ge=0, le=1, description="Specificity: share of the others that it leaves alone.")
    kappa: Number | None = Field(None, ge=-1, le=1, description="Cohen's kappa with people.")
    coverage: Number | None = Field(
        None,
        ge=0,
        le=1,
        description="Share of the gold answers that it must label; the other measures are over these alone.",
    )
    on: Literal["comply", "refuse", "all"] = Field(
        "all", description="The gold prompts that count, by what is expected there; needs `expectation` in the gold."
    )
    reading: Literal["broad", "strict"] = Field("broad", description="Which reading of the labels is compared.")

    @model_validator(mode="after")
    def _asks_something(self) -> Floor:
        if (self.se, self.sp, self.kappa, self.coverage) == (None, None, None, None):
            raise ValueError("name at least one of `se`, `sp`, `kappa` and `coverage`")
        return self


Certainty = Literal["always", "perhaps", "never"]


class JudgeEntry(Entry):
    """What all judges have.

    Attributes:
        gives_probabilities: whether its verdicts have a probability of refusal.
        tells_refusal_kinds: whether it says of a refusal which kind it is.
    """

    gives_probabilities: ClassVar[Certainty] = "never"
    tells_refusal_kinds: ClassVar[Certainty] = "never"

    kind: str
    label: str | None = Field(None, description="Name in tables and figures. Default: the entry's name.")
    floor: Floor | None = Field(None, description="Least agreement with people, checked at the end of every run.")


class KeywordJudge(JudgeEntry):
    """A rule-based judge: lists of phrases, no GPU."""

    kind: Literal["keyword"]
    lists: list[FilePath] = Field(
        min_length=1, description="YAML files with phrases, relative to the YAML file that names them."
    )


class LabelTokens(Entry):
    """The one-token labels a label-probability judge chooses from."""

    refusal: Text = Field(description="Label of a refusal.")
    partial: Text | None = Field(None, description="Label of a partial refusal. Leave it out for a two-label judge.")
    compliance: Text = Field(description="Label of compliance.")

    @model_validator(mode="after")
    def _all_differ(self) -> LabelTokens:
        tokens = [token for token in (self.refusal, self.partial, self.compliance) if token is not None]
        if len(set(tokens)) < len(tokens):
            raise ValueError(f"the labels must differ from each other, not {', '.join(map(repr, tokens))}")
        return self


class RubricReader(JudgeEntry):
    """What judges have in common that give a language model a rubric."""

    engine_needs: ClassVar[tuple[str, ...]] = ("writes_text", "takes_token_ids")  # see `Capabilities`

    engine: Slug = Field(description="Name of an engine of the catalogue.")
    rubric: FilePath = Field(
        description="Jinja file with the rubric, relative to the YAML file that names it. `{{ nonce }}`, a code that "
        "no answer can write, must stand before and behind `{{ answer }}`; docs/judges has a skeleton."
    )
    system_prompt: str | None = Field(None, description="System message of the judge.")
    template: Template = Field("default", description=TEMPLATE_HELP)
    template_options: PlainMapping = Field({}, description="Variables for the chat template.")
    date: Day = Field(datetime.date(2026, 1, 1), description="Today, for templates that insert the date.")


class LlmJudge(RubricReader):
    """A language model that reads a rubric; its verdict is the probability of the label tokens."""

    gives_probabilities: ClassVar[Certainty] = "always"
    engine_needs: ClassVar[tuple[str, ...]] = ("writes_text", "takes_token_ids", "label_probabilities")

    kind: Literal["llm"]
    labels: LabelTokens = Field(description="Label tokens; each must be one token that can follow the prompt.")
    threshold: Annotated[Number, Field(gt=0, lt=1)] | Literal["calibrated"] = Field(
        0.5,
        description="An answer is a refusal or partial refusal at p >= threshold. `calibrated`: the threshold that "
        "balances sensitivity and specificity on gold, and p mapped to what it was worth there.",
    )
    calibrated_on: Slug | None = Field(
        None, description="Gold of the study for `threshold: calibrated`. Default: the first of `gold`."
    )
    prefill: str | None = Field(
        None,
        description="Text with which the judge's reply is made to begin, control tokens included, e.g. "
        "`<|channel|>final<|message|>` for gpt-oss, whose reply would else begin with its reasoning.",
    )
    mass_floor: Number = Field(
        0.5, ge=0, le=1, description="Least probability on all labels together; below it the verdict is `unparsable`."
    )


class ReasonedJudge(RubricReader):
    """A language model that reads a rubric, writes a short analysis and then its verdict, as JSON that the engine
    enforces: label, kind of refusal, and whether the answer is evasive, degenerate or propaganda."""

    tells_refusal_kinds: ClassVar[Certainty] = "always"
    engine_needs: ClassVar[tuple[str, ...]] = ("writes_text", "takes_token_ids", "structured_outputs")

    kind: Literal["reasoned"]
    sampling: Sampling = Field(
        Sampling(max_tokens=512, temperature=0.6, top_p=0.95, top_k=20), description="How its text is drawn."
    )
    votes: Whole = Field(
        1, ge=1, le=31, description="Responses per answer, an odd number; the label is that of the middle one."
    )
    retries: Whole = Field(
        2, ge=0, le=10, description="How often a vote that cannot be read is asked again, with another seed."
    )
    reasoning: Reasoning | None = Field(
        None, description="Marks of the judge's own reasoning, for a model that reasons before it writes."
    )
    form: Literal["schema", "published"] = Field(
        "schema",
        description="`schema`: the JSON. `published`: free text, of which the last `refusal` decides, turned around by "
        "`not` right before it, as the published code of Refusal Steering reads its judge; for a rubric of your own "
        "that asks for it, with `votes: 1`, `retries: 0`, and only under `protocol: compat`. Tables then have `(last "
        "match)` behind the label.",
    )

    @model_validator(mode="after")
    def _votes_can_differ_and_decide(self) -> ReasonedJudge:
        if self.votes % 2 == 0:
            raise ValueError(f"`votes` must be odd, so that there is a middle one; it is {self.votes}")
        if self.sampling.temperature == 0 and (self.votes > 1 or self.retries > 0):
            raise ValueError("at temperature 0 every response is the same: `votes` must be 1 and `retries` 0")
        if self.form == "published" and (self.votes, self.retries) != (1, 0):
            raise ValueError("with `form: published` every text counts as it is: write `votes: 1` and `retries: 0`")
        return self


class WildGuardJudge(JudgeEntry):
    """WildGuard, with its own prompt format and its three answers: is the prompt harmful, does the answer refuse, is
    the answer harmful."""

    engine_needs: ClassVar[tuple[str, ...]] = ("writes_text", "takes_token_ids")  # see `Capabilities`

    kind: Literal["wildguard"]
    engine: Slug = Field(description="Name of an engine with WildGuard's weights.")


class ClassifierJudge(JudgeEntry):
    """A sequence-classification model of the hub or of a folder; each of its classes stands for a label."""

    gives_probabilities: ClassVar[Certainty] = "always"
    engine_needs: ClassVar[tuple[str, ...]] = ("classifies", "takes_token_ids")  # see `Capabilities`

    kind: Literal["classifier"]
    engine: Slug = Field(description="Name of an engine with `kind: transformers`.")
    template: FilePath = Field(
        description="Jinja file that writes what the classifier reads, from two messages: `messages[0]` (the prompt) "
        "and `messages[1]` (the answer); the tokenizer's own marks are put around it."
    )
    labels: dict[str, Literal["refusal", "partial", "compliance", "unparsable"]] = Field(
        min_length=2,
        description='What each class stands for, by its name in the model\'s config.json or by its number, e.g. `"1"`; '
        "`unparsable` for a class that is none of the labels.",
    )
    threshold: Annotated[Number, Field(gt=0, lt=1)] | Literal["calibrated"] = Field(
        0.5,
        description="An answer is a refusal or partial refusal at p >= threshold. `calibrated`: as of judges of "
        "kind `llm`.",
    )
    calibrated_on: Slug | None = Field(
        None, description="Gold of the study for `threshold: calibrated`. Default: the first of `gold`."
    )


class PanelJudge(JudgeEntry):
    """Several judges of the study together; no GPU of its own."""

    gives_probabilities: ClassVar[Certainty] = "perhaps"
    tells_refusal_kinds: ClassVar[Certainty] = "perhaps"

    kind: Literal["panel"]
    members: list[Slug] = Field(min_length=2, description="Judges of the study, at least two; no panels.")
    rule: Literal["majority", "mean"] = Field(
        "majority",
        description="`majority`: the middle label, from refusal over partial to compliance. `mean`: refusal or partial "
        "where the mean of the members' p_refusal is at least `threshold`; a member without one counts as 1 or 0.",
    )
    ties: Literal["refusal", "partial", "compliance", "unparsable"] = Field(
        "unparsable", description="Label where the two middle ones differ (`majority` with an even number of members)."
    )
    least: Whole | None = Field(
        None, ge=1, description="Members that must have judged an answer; below it `unparsable`. Default: all."
    )
    threshold: Number = Field(0.5, gt=0, lt=1, description="Used by `mean`.")

    @model_validator(mode="after")
    def _members_are_enough(self) -> PanelJudge:
        if len(set(self.members)) < len(self.members):
            raise ValueError("`members` names a judge twice")
        if self.least is not None and self.least > len(self.members):
            raise ValueError(f"`least` is {self.least}, and there are {len(self.members)} members")
        return self


class TrainedJudge(JudgeEntry):
    """A linear model over the wording of answers, fitted on gold of the study; no GPU. It knows how the answering
    models of its gold refuse, and little about others: see docs/judges."""

    gives_probabilities: ClassVar[Certainty] = "always"

    kind: Literal["trained"]
    gold: list[Slug] = Field(min_length=1, description="Gold of the study that it learns from.")
    lists: list[FilePath] = Field(min_length=1, description="Keyword lists; their reading is one of its features.")
    threshold: Number = Field(
        0.5, gt=0, lt=1, description="An answer is a refusal or partial refusal at p >= threshold."
    )


class PythonJudge(JudgeEntry):
    """A function of your own, in a file of your own."""

    gives_probabilities: ClassVar[Certainty] = "perhaps"
    tells_refusal_kinds: ClassVar[Certainty] = "perhaps"

    kind: Literal["python"]
    file: FilePath = Field(
        description="Python file, relative to the YAML file that names it. A change of it reruns this judge."
    )
    function: Text = Field(
        "judge", description="Function in that file: `(messages, answer)` to a label, a mapping, or None."
    )


class RecordedJudge(JudgeEntry):
    """The judge whose scores came with recorded answers (`recorded` of a model): judge_scores.json beside them."""

    kind: Literal["recorded"]


Judge = Annotated[JudgeEntry, OfKind(JUDGES)]
