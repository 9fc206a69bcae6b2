"""What kinds of judges and of figures ask of the study that they are in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from refusal_eval.config.datasets import Split


@dataclass(frozen=True)
class StudyView:
    """A study's names in their order, and the entries of its judges and splits.

    While a study is checked, a judge or a split whose entry is wrong is None.
    """

    judges: Mapping[str, Any]
    gold: Sequence[str]
    protocol: str = "default"
    models: Sequence[str] = ()
    splits: Mapping[str, Split] = field(default_factory=dict)
    samples: int = 1
    primary_judge: str = ""
