"""What is wrong with the ways of asking that a study names, by its splits."""

from collections.abc import Iterator

from refusal_eval.config.checked_study import CheckedStudy
from refusal_eval.config.datasets import Split
from refusal_eval.config.problems import Mistake
from refusal_eval.core.hints import nearest
from refusal_eval.core.states import HEADLINE_READING
from refusal_eval.features.ways_of_asking.ways_keys import WaysKeys


def ways_mistakes(study: CheckedStudy) -> Iterator[Mistake]:
    """Yield names that are no splits of the study, and splits whose turns cannot be paired."""
    named = study.names("splits")
    for number, names in enumerate(WaysKeys.of(study.settings).ways_of_asking):
        first: tuple[str, Split] | None = None
        for place, name in enumerate(names):
            here = ("ways_of_asking", number, place)
            if name not in named:
                if study.all_known("splits"):
                    yield here, f"`{name}` is not one of `splits` of the study" + nearest(name, named)
                continue
            split = study.splits.get(name)
            if split is None:  # it has a mistake of its own
                continue
            if split.dialogue is None:
                yield here, f"`{name}` has no `dialogue`, so that it asks no turns; leave it out"
            elif first is None:
                first = (name, split)
            elif why := _apart(split, first[1]):
                yield here, f"`{name}` and `{first[0]}` {why}"


def _apart(one: Split, other: Split) -> str | None:
    """Return why the turns of two splits cannot be paired, or None."""
    if one.source.origin != other.source.origin:
        return "read different sources, so that their rows do not pair; name splits of one source"
    for column in ("turns", "messages"):
        if getattr(one.columns, column) != getattr(other.columns, column):
            return f"have different `columns.{column}`, so that their turns do not pair"
    if (one.columns.cluster, one.clusters) != (other.columns.cluster, other.clusters):
        return "have different clusters; the interval of a difference needs the same ones"
    readings = [split.headline or HEADLINE_READING[split.expectation] for split in (one, other)]
    if readings[0] != readings[1]:
        return f"have different headline readings ({readings[0]} and {readings[1]}); give both the same `headline`"
    return None
