"""The key `weighed_against` of a split."""

from pydantic import Field

from refusal_eval.config.feature_keys import FeatureKeys
from refusal_eval.config.shapes import Text


class WeighedKeys(FeatureKeys):
    """What the paper of a split weighs refusals of its prompts against."""

    weighed_against: Text | None = Field(
        None,
        description="What the paper of a `comply` split weighs over-refusal against, if that is no rate of refusals, "
        "such as 1 - ASR. Table and figure of the trade-off then say that theirs is another axis.",
    )
