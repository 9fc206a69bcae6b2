"""How the values of words are computed: a method is one class."""

from typing import ClassVar

from refusal_eval.core.registry import Registry

ATTRIBUTION_METHODS = Registry("method of an attribution", "ATTRIBUTION_METHODS")


class AttributionMethod:
    """A method of attributions.

    Attributes:
        name: value of the key `method`.
        words: the sentence that says what values are, with places for `Score` and `unit`.
        steps: how many gradients are taken on the way from the baseline to the prompt; 0 for a method that asks the
            engine for the score of prompts.
    """

    name: ClassVar[str]
    words: ClassVar[str]
    steps: ClassVar[int] = 0


class LeaveOneOut(AttributionMethod):
    """The score of the prompt minus that of the prompt without the word."""

    name = "leave_one_out"
    words = "{Score}, of the prompt minus that of the prompt without the {unit}."


class Gradient(AttributionMethod):
    """The gradient of the score at the prompt, times the way from the embedding of padding to the word's."""

    name = "gradient"
    words = (
        "Gradient of F at the embeddings of the prompt, times the way to them from that of padding, summed over the "
        "tokens of the {unit}. F: {score}."
    )
    steps = 1


class IntegratedGradient(AttributionMethod):
    """The same, with the mean gradient on that way."""

    name = "integrated_gradient"
    words = (
        "Integrated gradient of F: its mean on the straight way from the embedding of padding to those of the prompt, "
        "times that way, summed over the tokens of the {unit}. F: {score}."
    )
    steps = 16
