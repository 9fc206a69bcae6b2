"""The key `targets` of a study file."""

from typing import Annotated

from pydantic import Field, StringConstraints

from refusal_eval.config.feature_keys import FeatureKeys
from refusal_eval.config.shapes import CSV, OnDisk


class TargetsKeys(FeatureKeys):
    """What a study says of figures that others published."""

    targets: Annotated[str, StringConstraints(pattern=CSV), OnDisk("file")] | None = Field(
        None,
        description="CSV of published figures, relative to this file (docs/reference/tables.md#published-figures). "
        "The table `targets` shows them beside this study's numbers; nothing else reads them.",
    )
