"""The key `attributions` of a study file."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from refusal_eval.config.feature_keys import FeatureKeys, ProbeAsked, PromptRequests, WordValues
from refusal_eval.config.kinds import NameIn
from refusal_eval.config.shapes import Entry, Slug, Text, Whole
from refusal_eval.features.attributions.attribution_methods import ATTRIBUTION_METHODS
from refusal_eval.features.attributions.attribution_scores import ATTRIBUTION_SCORES, REPLY_TOKENS, AttributionScore
from refusal_eval.features.attributions.left_out import asked_about, asked_prompts
from refusal_eval.judges.first_token_judge import MOST_TOKENS, FirstTokens

MOST_REPLY = 512
KEYS_OF_SCORES = ("refusal", "tokens", "direction", "layer")


class Attribution(Entry):
    """How much each word of the prompts of a split contributes to the score of a model's refusal
    (docs/how-to/attributions.md)."""

    model: Slug = Field(description="Model of the study.")
    split: Slug = Field(description="Split of the study.")
    score: Annotated[str, NameIn(ATTRIBUTION_SCORES)] = Field(
        description="What words contribute to. `refusal_start`: the logarithm of the probability that the reply begins "
        "with one of the tokens of `refusal`. `reply`: the log-probability of the first `tokens` tokens of the model's "
        "own reply to the whole prompt, its first sample. `direction`: the projection of the residual stream behind "
        "`layer`, at the last token of the prompt, on the vector of `direction` there, in units of its length."
    )
    method: Annotated[str, NameIn(ATTRIBUTION_METHODS)] = Field(
        description="How. `leave_one_out`: the score of the prompt minus that of the prompt without the word. "
        "`gradient`: the gradient of the score at the embeddings of the word's tokens, times the way to them from the "
        "embedding of padding. `integrated_gradient`: the same with the mean gradient on this way."
    )
    direction: Slug | None = Field(None, description="For `direction`: direction of the study (`directions`).")
    layer: Whole | None = Field(None, ge=0, description="For `direction`: decoder layer, the first is 0.")
    unit: Literal["word", "sentence"] = Field(
        "word", description="What has a value: the units that splits of kind `occluded` leave out."
    )
    refusal: Annotated[list[Text], Field(min_length=1, max_length=MOST_TOKENS)] | FirstTokens | None = Field(
        None,
        description="For `refusal_start`: texts with which a refusal begins, each one token behind the prompt; or "
        "`{gold: NAME}`: the tokens with which the refusals of that gold begin (as for judges of kind `first_token`).",
    )
    tokens: Whole | None = Field(
        None,
        ge=1,
        le=MOST_REPLY,
        description=f"For `reply`: how many tokens of the reply count, at most. Default {REPLY_TOKENS}.",
    )
    focus: Text | None = Field(
        "focus",
        description="Column of the split (`columns.keep`) with the word or words that are to be found. With null there "
        "are values and the figure, and no table.",
    )
    refused: Literal["only"] | None = Field(
        None,
        description="`only`: the table is of the prompts that the model refuses, by the primary judge: more than half "
        "of its answers, in the split's headline reading.",
    )

    @model_validator(mode="before")
    @classmethod
    def _with_defaults_of_the_score(cls, given: Any) -> Any:
        name = given.get("score") if isinstance(given, dict) else None
        if name not in ATTRIBUTION_SCORES.names():
            return given
        return {**ATTRIBUTION_SCORES.get(name).defaults, **given}

    @model_validator(mode="after")
    def _known_before_any_answer(self) -> Attribution:
        if isinstance(self.refusal, FirstTokens) and self.refusal.gold is None:
            raise ValueError(
                "`refusal` cannot be taken from the model's own answers, with which these requests share an engine "
                "load; name `gold`, or the texts"
            )
        score = ATTRIBUTION_SCORES.get(self.score)
        for key in KEYS_OF_SCORES:
            if key in score.keys and getattr(self, key) is None:
                raise ValueError(f"`score: {self.score}` needs `{key}`")
            if key not in score.keys and getattr(self, key) is not None:
                raise ValueError(f"`{key}` is not for `score: {self.score}`; leave it out")
        if isinstance(self.refusal, list) and len(set(self.refusal)) < len(self.refusal):
            raise ValueError("`refusal` names a text twice")
        return self

    @property
    def of_score(self) -> type[AttributionScore]:
        """The class of its score."""
        return ATTRIBUTION_SCORES.get(self.score)

    @property
    def in_words(self) -> dict[str, Any]:
        """Its keys that sentences about it speak of."""
        always = ("model", "split", "score", "method", "unit", "focus", "refused")
        named = [key for key in KEYS_OF_SCORES if key != "refusal" and getattr(self, key) is not None]
        return {key: getattr(self, key) for key in (*always, *named)}

    @property
    def steps(self) -> int:
        """How many gradients the method takes of a prompt; 0 for one that asks the engine."""
        return int(ATTRIBUTION_METHODS.get(self.method).steps)

    @property
    def in_program(self) -> bool:
        """Whether a program of the engine environment computes the values, with the engine's weights."""
        return bool(self.steps) or self.of_score.in_program

    @property
    def gold(self) -> str | None:
        """The gold whose refusals give the tokens; None where texts are named."""
        return self.refusal.gold if isinstance(self.refusal, FirstTokens) else None


class AttributionKeys(FeatureKeys):
    """What a study attributes."""

    in_methods: ClassVar[tuple[str, ...]] = ("attributions",)
    probe_requests: ClassVar[str] = "attribution_requests"

    attributions: dict[Slug, Attribution] = Field(
        {},
        description="How much each word of prompts contributes to a refusal, by a name of your choice "
        "(docs/how-to/attributions.md).",
    )

    def word_values(self) -> dict[str, WordValues]:
        return {
            name: WordValues(one.model, one.split, "attribution_values", one.of_score.after_answers)
            for name, one in self.attributions.items()
        }

    def probes(self) -> dict[str, ProbeAsked]:
        """Return the requests of each attribution that has any: the prompt, and the prompt without each unit."""
        return {
            name: ProbeAsked(
                one.model,
                one.split,
                PromptRequests(
                    lambda row, unit=one.unit: len(asked_prompts(row, unit)),  # type: ignore[misc]
                    lambda tokens, unit=one.unit: asked_about(tokens, unit),  # type: ignore[misc]
                    float(one.tokens or 0),
                ),
                one.of_score.after_answers,
            )
            for name, one in self.attributions.items()
            if not one.in_program
        }
