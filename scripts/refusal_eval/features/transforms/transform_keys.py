"""The key `transform` of a model's entry."""

from pydantic import Field

from refusal_eval.config.feature_keys import FeatureKeys
from refusal_eval.features.transforms.transform_kind import AnyTransform


class TransformKeys(FeatureKeys):
    """What a model's entry says of how its prompts are changed."""

    transform: AnyTransform | None = Field(
        None,
        description="Change of the prompts that this model is asked, whose ids stay: answers are compared prompt by "
        "prompt, and judges read the split's own prompt (docs/how-to/change_prompts.md). In no request key: requests "
        "differ by their prompts.",
    )
