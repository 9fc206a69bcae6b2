"""What kinds of judges and of figures ask of the study that they are in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class StudyView:
    """A study's names in their order, and the entries of its judges and splits.

    While a study is checked, a judge or a split whose entry is wrong is None, and a model or a direction whose entry
    is wrong is not among `steering`, the models' entries and those of the directions. `separations` has the models of
    each by its name, `seconds` the entries of the judges that others ask on their behalf, and `written` the gold that
    no person labelled (`written_to_label`).
    """

    judges: Mapping[str, Any]
    gold: Sequence[str]
    protocol: str = "default"
    models: Sequence[str] = ()
    splits: Mapping[str, Any] = field(default_factory=dict)
    samples: int = 1
    primary_judge: str = ""
    separations: Mapping[str, Sequence[str]] = field(default_factory=dict)
    steering: tuple[Mapping[str, Any], Mapping[str, Any]] = field(default_factory=lambda: ({}, {}))
    seconds: Mapping[str, Any] = field(default_factory=dict)
    written: frozenset[str] = frozenset()
