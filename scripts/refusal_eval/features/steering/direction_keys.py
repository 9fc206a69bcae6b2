"""The keys of a study about its directions."""

from pydantic import Field

from refusal_eval.config.feature_keys import FeatureKeys
from refusal_eval.config.shapes import Slug
from refusal_eval.features.steering.direction_entry import Direction


class DirectionKeys(FeatureKeys):
    """Which directions a study fits."""

    directions: list[Slug] = Field(
        [],
        description="Directions of the catalogue, fitted on activations of this study's models "
        "(docs/reference/steering.md).",
    )


class DirectionEntries(FeatureKeys):
    """Their entries, in a validated study."""

    direction_entries: dict[Slug, Direction] = Field({}, description="Directions in use.")
