"""What kinds of judges and of figures ask of the study that they are in."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class StudyView:
    """A study's names in their order, and the entries of its judges and splits.

    While a study is checked, a judge or a split whose entry is wrong is None. `entries` are those of models and of
    sections of features, without wrong ones, by section; `items` returns the items of a list of the study that are not
    wrong, by their place. `seconds` has the entries of the judges that others ask on their behalf, and `written` the
    gold that no person labelled (`written_to_label`, `labelled_by_model`). `may_block`: whether another party may block
    what its models are asked or answer. `has_c`: whether answers of any model may have log-probabilities, without which
    there is no c(x).
    """

    judges: Mapping[str, Any]
    gold: Sequence[str]
    protocol: str = "default"
    models: Sequence[str] = ()
    splits: Mapping[str, Any] = field(default_factory=dict)
    samples: int = 1
    primary_judge: str = ""
    entries: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    items: Callable[[str, type[Any]], Mapping[Any, Any]] = lambda key, entry: {}
    seconds: Mapping[str, Any] = field(default_factory=dict)
    written: frozenset[str] = frozenset()
    may_block: bool = False
    has_c: bool = True

    def read_by(self, judge: str) -> list[str]:
        """Return the models whose answers a judge judges; those of a wrong entry count as judged."""
        entry, own = self.judges.get(judge), self.entries.get("models", {})
        return [name for name in self.models if entry is None or name not in own or entry.reads_model(own[name])]

    @property
    def whole_judges(self) -> list[str]:
        """The judges that judge the answers of every model: what compares models or judges is under these."""
        return [name for name in self.judges if len(self.read_by(name)) == len(self.models)]
