"""The key `ways_of_asking` of a study file."""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator

from refusal_eval.config.feature_keys import FeatureKeys
from refusal_eval.config.shapes import Slug


class WaysKeys(FeatureKeys):
    """Which splits of a study ask the same turns."""

    ways_of_asking: list[list[Slug]] = Field(
        [],
        description="Lists of splits that ask the turns of the same rows in several ways, as `dialogue.mode` says: "
        "`[[chats, after_the_scene, alone]]`. Gives the differences of their refusal rates for each model, turn by "
        "turn, with intervals (docs/reference/comparisons.md#ways-of-asking).",
    )

    @field_validator("ways_of_asking", mode="before")
    @classmethod
    def _lists_in_a_list(cls, value: Any) -> Any:
        if isinstance(value, list) and value and all(isinstance(name, str) for name in value):
            raise ValueError(f"is a list of lists of splits: write [[{', '.join(value)}]]")
        return value

    @field_validator("ways_of_asking")
    @classmethod
    def _several_once(cls, value: list[list[str]]) -> list[list[str]]:
        seen: set[frozenset[str]] = set()
        for names in value:
            if len(names) < 2:
                raise ValueError(f"a list names at least two splits, not {len(names)}")
            again = next((name for name in names if names.count(name) > 1), None)
            if again is not None:
                raise ValueError(f"a list names `{again}` twice")
            pairs = {frozenset((one, other)) for one in names for other in names if one != other}
            if twice := sorted(map(sorted, pairs & seen)):
                raise ValueError(f"two lists name both {twice[0][0]} and {twice[0][1]}")
            seen |= pairs
        return value
