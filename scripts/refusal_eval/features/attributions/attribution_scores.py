"""What the words of a prompt contribute to: a score is one class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from refusal_eval.config.engine_entry import Capability
from refusal_eval.core.registry import Registry

if TYPE_CHECKING:
    from refusal_eval.features.attributions.attribution_keys import Attribution

ATTRIBUTION_SCORES = Registry("score of an attribution", "ATTRIBUTION_SCORES")

REPLY_TOKENS = 16  # of a reply that count, unless a study says how many


class AttributionScore:
    """A score of a prompt, F, that attributions are of.

    Attributes:
        name: value of the key `score`.
        words: what it is, with places for the keys of an attribution.
        greater: what a word with a value above 0 makes: `a refusal more probable`.
        unit: that values are in; empty for none.
        keys: keys of an attribution that it needs; those of other scores are refused with it.
        defaults: values of these that a study may leave out.
        in_program: whether a program of the engine environment computes it for every method, and no engine is asked.
        engine_needs: what an engine must be able to do that is asked for it; None where none is.
        engine_lacks: what engines that cannot do so do not give, for a message.
        after_answers: whether it is made of the model's own answers.
    """

    name: ClassVar[str]
    words: ClassVar[str]
    greater: ClassVar[str]
    unit: ClassVar[str] = "nats"
    keys: ClassVar[tuple[str, ...]] = ()
    defaults: ClassVar[Mapping[str, Any]] = {}
    in_program: ClassVar[bool] = False
    engine_needs: ClassVar[Capability | None] = None
    engine_lacks: ClassVar[str] = ""
    after_answers: ClassVar[bool] = False

    @classmethod
    def asked(cls, one: Attribution) -> dict[str, Any]:
        """Return what decides the score of a prompt, besides model and prompt."""
        raise NotImplementedError

    @classmethod
    def in_words(cls, one: Mapping[str, Any]) -> str:
        """Return what it is, in words.

        Args:
            one: the attribution's keys.
        """
        return cls.words.format(**one)


class RefusalStart(AttributionScore):
    """The logarithm of the probability that the reply begins with a token of refusal."""

    name = "refusal_start"
    words = "the logarithm of the probability that the reply begins with a token of refusal"
    greater = "a refusal more probable"
    keys = ("refusal",)
    engine_needs = "label_probabilities"
    engine_lacks = "the probabilities of named tokens"

    @classmethod
    def asked(cls, one: Attribution) -> dict[str, Any]:
        return {"refusal": one.model_dump(mode="json")["refusal"]}


class OwnReply(AttributionScore):
    """The log-probability of the first tokens of the model's own reply to the whole prompt."""

    name = "reply"
    words = "the log-probability of the first {tokens} tokens of the model's own reply"
    greater = "the reply more probable"
    keys = ("tokens",)
    defaults: ClassVar = {"tokens": REPLY_TOKENS}
    engine_needs = "prompt_log_probabilities"
    engine_lacks = "the log-probabilities of given tokens"
    after_answers = True

    @classmethod
    def asked(cls, one: Attribution) -> dict[str, Any]:
        return {"reply": one.tokens}


class OnDirection(AttributionScore):
    """The projection of the residual stream at the last token of the prompt on a direction of the study."""

    name = "direction"
    words = (
        "the projection of the residual stream behind layer {layer}, at the last token of the prompt, on the direction "
        "{direction}"
    )
    greater = "the projection greater"
    unit = ""
    keys = ("direction", "layer")
    in_program = True

    @classmethod
    def asked(cls, one: Attribution) -> dict[str, Any]:
        return {"direction": one.direction, "layer": one.layer}
