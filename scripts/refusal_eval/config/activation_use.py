"""What features make from activations of a study's models; the activations themselves are the kernel's.

A use is one class in the folder of its feature, found by `ACTIVATION_USES` (config/kinds.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from refusal_eval.config.capture_entry import Positions, Side, parts_with_places
from refusal_eval.config.kinds import ACTIVATION_USES
from refusal_eval.config.shapes import KeyPath

if TYPE_CHECKING:
    from refusal_eval.config.checked_study import CheckedStudy
    from refusal_eval.study.study import Study


@dataclass(frozen=True)
class Capture:
    """Activations of one model that one thing is made from."""

    use: str  # name of the use
    name: str  # of what is made
    model: str
    positions: Positions
    layers: list[int] | None  # None for all
    sides: Mapping[str, Side | list[Side]]

    @property
    def parts(self) -> list[Side]:
        """The groups of prompts that its sides are made of."""
        return [part for _, part in parts_with_places(self.sides)]


@dataclass(frozen=True)
class CheckedUse:
    """A valid entry of a study that is checked: where it stands, and what it reads."""

    place: KeyPath
    models: Mapping[KeyPath, str]  # by their place in the entry
    sides: Mapping[str, Side | list[Side]]  # by their key in the entry


class ActivationUse:
    """What a feature makes from activations.

    Attributes:
        name: of its key in a study file, and noun of the files that it makes.
        made: nouns of all files that it makes; the manifest holds their hashes.
        of_changed: whether it reads activations of models with a change (`Change.captured`), too.
        done: what `status` says of one that is made, if steps of the study wait for them: `fitted`.
        alone: what the methods section says of a split that is used for nothing else.
    """

    name: ClassVar[str]
    made: ClassVar[tuple[str, ...]]
    of_changed: ClassVar[bool] = False
    done: ClassVar[str] = ""
    alone: ClassVar[str]

    def checked(self, study: CheckedStudy) -> Iterator[CheckedUse]:
        """Yield what a study that is checked asks for."""
        raise NotImplementedError

    def captures(self, study: Study) -> list[Capture]:
        """Return the activations that a study needs for it."""
        raise NotImplementedError

    def layers_named(self, study: Study, model: str) -> Iterable[int]:
        """Return the layers of a model that the study names apart from those of `captures`."""
        return ()

    def written(self, config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """Return the entries of a validated study, as its config holds them."""
        raise NotImplementedError

    def in_manifest(self, files: Sequence[Path]) -> dict[str, Any]:
        """Return what the study's manifest says of what was made, beyond the hashes of these files."""
        return {}


def activation_uses() -> list[ActivationUse]:
    """Return all uses, in the order of their features."""
    return [ACTIVATION_USES.get(name)() for name in ACTIVATION_USES.names()]
