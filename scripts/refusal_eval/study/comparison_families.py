"""Families of comparisons: which sides, and on what."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

MODELS, JUDGES = "models", "judges"


@dataclass(frozen=True)
class Scope:
    """What a comparison, or a rate, is made on: one split, or several of an expectation."""

    splits: tuple[str, ...]  # the splits, sorted
    pool: str | None  # their expectation where they are pooled, None for one split by itself

    @property
    def name(self) -> str:
        """Name that no other scope has."""
        return f"pool of {', '.join(self.splits)}" if self.pool else self.splits[0]


@dataclass(frozen=True)
class Family:
    """Comparisons that are corrected together."""

    label: str  # how the table calls it
    kind: str  # `models` or `judges`, what is compared
    held: tuple[str, ...]  # the judge under which models are compared, or the models on whose answers judges are
    pairs: tuple[tuple[str, str], ...]  # (first, second) sides of each comparison
    scopes: tuple[Scope, ...]  # what they are made on

    def sides(self) -> list[str]:
        """Return the models or judges that are compared, sorted."""
        return sorted({side for pair in self.pairs for side in pair})

    def cell(self, held: str, side: str, split: str) -> tuple[str, str, str]:
        """Return the cell of a side."""
        return (held, side, split) if self.kind == MODELS else (side, held, split)

    def cells(self) -> set[tuple[str, str, str]]:
        """Return all cells that the family needs."""
        splits = {split for scope in self.scopes for split in scope.splits}
        return {self.cell(*names) for names in itertools.product(self.held, self.sides(), splits)}

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain lists and words."""
        plain: dict[str, Any] = _FORM.dump_python(self, mode="json")
        return plain


_FORM = TypeAdapter(Family)


def family_of(plain: Mapping[str, Any]) -> Family:
    """Return the family that `Family.as_dict` wrote."""
    return _FORM.validate_python(plain)
