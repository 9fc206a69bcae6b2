"""The key `mixed_model` of a study file."""

from pydantic import Field

from refusal_eval.config.feature_keys import FeatureKeys


class VariationKeys(FeatureKeys):
    """What a study says of the variation of its verdicts."""

    mixed_model: bool = Field(
        False,
        description="Fit a crossed logistic mixed model to each split: how much of the variation of verdicts is due to "
        "models, prompts, judges and sampling (docs/reference/statistics.md). Takes minutes for 50,000 answers and two "
        "judges; needs two samples.",
    )
