"""The comparisons of a study, family by family: which sides, and on what."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Cell = tuple[str, str, str]  # judge, model, split
MODELS, JUDGES = "models", "judges"
MOST_MODELS = 10  # a study of more models than this compares nothing until it says what
EXPECTATIONS = ("refuse", "comply", "varies")


@dataclass(frozen=True)
class Scope:
    """What a comparison is made on: one split, or all splits of an expectation that a family has."""

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

    def cell(self, held: str, side: str, split: str) -> Cell:
        """Return the cell of a side."""
        return (held, side, split) if self.kind == MODELS else (side, held, split)

    def cells(self) -> set[Cell]:
        """Return all cells that the family needs."""
        splits = {split for scope in self.scopes for split in scope.splits}
        return {self.cell(*names) for names in itertools.product(self.held, self.sides(), splits)}

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain lists and words."""
        plain = dataclasses.asdict(self)
        lists = {"held": list(self.held), "pairs": [list(pair) for pair in self.pairs]}
        return plain | lists | {"scopes": [{"splits": list(s.splits), "pool": s.pool} for s in self.scopes]}


def family_of(plain: Mapping[str, Any]) -> Family:
    """Return the family that `Family.as_dict` wrote."""
    scopes = tuple(Scope(tuple(scope["splits"]), scope["pool"]) for scope in plain["scopes"])
    pairs = tuple((first, second) for first, second in plain["pairs"])
    return Family(plain["label"], plain["kind"], tuple(plain["held"]), pairs, scopes)


def study_families(config: Mapping[str, Any]) -> list[Family]:
    """Return the families of a study; by default all pairs of up to ten models under the primary judge.

    Families of one label are numbered, so that the table can tell them apart.
    """
    written = config["comparisons"]
    if written is None:
        written = [{"pairs": "all"}] if 2 <= len(config["models"]) <= MOST_MODELS else []
    families = [_family(entry, config) for entry in written]
    labels = [family.label for family in families]
    return [
        dataclasses.replace(family, label=f"{family.label} ({i + 1})") if labels.count(family.label) > 1 else family
        for i, family in enumerate(families)
    ]


def _family(entry: Mapping[str, Any], config: Mapping[str, Any]) -> Family:
    of_judges = entry.get("judges") is not None
    names = sorted(config["judges"] if of_judges else entry.get("models") or config["models"])
    wanted, against = entry["judges"] if of_judges else entry.get("pairs"), entry.get("against")
    if against is not None:
        pairs = [(name, against) for name in names if name != against]
        words = f"models against {_label(config, 'model', against)}"
    elif wanted == "all":
        pairs, words = list(itertools.combinations(names, 2)), f"all pairs of {JUDGES if of_judges else MODELS}"
    else:
        pairs = [(first, second) for first, second in wanted or ()]
        words = f"chosen pairs of {JUDGES if of_judges else MODELS}"
    judge = entry.get("judge") or config["primary_judge"]
    return Family(
        label=entry.get("label") or words,
        kind=JUDGES if of_judges else MODELS,
        held=tuple(sorted(entry.get("models") or config["models"])) if of_judges else (judge,),
        pairs=tuple(pairs),
        scopes=tuple(_scopes(entry.get("splits") or config["splits"], entry.get("scope") or "both", config)),
    )


def _scopes(splits: Sequence[str], scope: str, config: Mapping[str, Any]) -> list[Scope]:
    """Splits in the study's order, then the pools of two and more splits of one expectation."""
    single = [Scope((split,), None) for split in splits] if scope != "pooled" else []
    of = {e: sorted(s for s in splits if config["split_entries"][s]["expectation"] == e) for e in EXPECTATIONS}
    least = 1 if scope == "pooled" else 2
    pools = [Scope(tuple(found), e) for e, found in of.items() if len(found) >= least] if scope != "splits" else []
    return single + pools


def _label(config: Mapping[str, Any], kind: str, name: str) -> str:
    return str(config[f"{kind}_entries"][name]["label"] or name)
