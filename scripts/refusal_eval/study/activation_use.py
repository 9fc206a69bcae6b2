"""What features make from activations of a study's models; the activations themselves are the kernel's.

A use is one class in the folder of its feature, found by `ACTIVATION_USES` (config/kinds.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from refusal_eval.config.direction_entry import Positions, Side
from refusal_eval.config.kinds import ACTIVATION_USES

if TYPE_CHECKING:
    from refusal_eval.study.study import Study


@dataclass(frozen=True)
class Capture:
    """Activations of one model that one thing is made from."""

    use: str  # name of the use
    name: str  # of what is made
    model: str
    positions: Positions
    layers: list[int] | None  # None for all
    sides: dict[str, Side]


class ActivationUse:
    """What a feature makes from activations.

    Attributes:
        name: noun of what it makes, a key of `study.files.FILES`.
        made: nouns of all files that it makes; the manifest holds their hashes.
        done: what `status` says of one that is made, if steps of the study wait for them: `fitted`.
        alone: what the methods section says of a split that is used for nothing else.
    """

    name: ClassVar[str]
    made: ClassVar[tuple[str, ...]]
    done: ClassVar[str] = ""
    alone: ClassVar[str]

    def captures(self, study: Study) -> list[Capture]:
        """Return the activations that a study needs for it."""
        raise NotImplementedError

    def layers_named(self, study: Study, model: str) -> Iterable[int]:
        """Return the layers of a model that the study names apart from those of `captures`."""
        return ()

    def in_manifest(self, files: Sequence[Path]) -> dict[str, Any]:
        """Return what the study's manifest says of what was made, beyond the hashes of these files."""
        return {}


def activation_uses() -> list[ActivationUse]:
    """Return all uses, in the order of their features."""
    return [ACTIVATION_USES.get(name)() for name in ACTIVATION_USES.names()]
