"""What is wrong with the families of comparisons of a study, by the study around them."""

from collections.abc import Iterator, Mapping, Sequence

from refusal_eval.config.checked_study import CheckedStudy
from refusal_eval.config.problems import Mistake
from refusal_eval.config.shapes import KeyPath
from refusal_eval.core.hints import nearest
from refusal_eval.features.comparisons.comparison_entries import ComparisonFamily


def comparison_mistakes(study: CheckedStudy) -> Iterator[Mistake]:
    """Yield what is wrong with the families of a study."""
    named = {key: study.names(key) for key in ("models", "splits", "judges") if study.all_known(key)}
    if "judges" in named and study.all_valid("models", "judges"):
        named["judges"] = study.view.whole_judges
    for number, family in study.valid_items("comparisons", ComparisonFamily).items():
        for path, message in family_mistakes(family, named):
            yield ("comparisons", number, *path), message


def family_mistakes(family: ComparisonFamily, names: Mapping[str, Sequence[str]]) -> Iterator[Mistake]:
    """Yield names in a family that are not the study's, and what has nothing to be compared with.

    Args:
        names: the study's `models`, `splits` and `judges`; a list that has mistakes of its own is left out.
    """
    for path, name, section in _named(family):
        known = names.get(section)
        if known is not None and name not in known:
            yield path, f"`{name}` is not one of `{section}` of the study" + nearest(name, known)
    models = set(family.models or names.get("models", ()))
    if family.pairs == "all" and len(models) == 1:
        yield ("pairs",), "there is one model only: nothing to compare it with"
    if family.against is not None and models == {family.against}:
        yield ("against",), f"there is no other model to compare with `{family.against}`"
    if family.judges == "all" and len(names.get("judges", ())) == 1:
        yield ("judges",), "there is one judge only: nothing to compare it with"


def _named(family: ComparisonFamily) -> Iterator[tuple[KeyPath, str, str]]:
    """Yield each name in a family with its place and the list of the study that it must be in."""
    places: list[tuple[KeyPath, str | None, str]] = [
        (("against",), family.against, "models"),
        (("judge",), family.judge, "judges"),
        *((("models", i), name, "models") for i, name in enumerate(family.models or ())),
        *((("splits", i), name, "splits") for i, name in enumerate(family.splits or ())),
    ]
    for key, section, pairs in (("pairs", "models", family.pairs), ("judges", "judges", family.judges)):
        for i, pair in enumerate(pairs if isinstance(pairs, list) else ()):
            places += [((key, i, j), name, section) for j, name in enumerate(pair)]
    yield from ((path, name, section) for path, name, section in places if name is not None)
