"""Mistakes of the separations of a study, beyond those of all that is made from activations."""

from collections.abc import Iterator

from refusal_eval.config.checked_study import CheckedStudy
from refusal_eval.config.problems import Mistake
from refusal_eval.core.hints import nearest
from refusal_eval.features.separation.separation_entry import Separation


def separation_mistakes(study: CheckedStudy) -> Iterator[Mistake]:
    """Yield names that two separations have, and references that are none of their models or have none beside them."""
    seen = set[str]()
    for place, entry in study.valid_items("separation", Separation).items():
        if entry.name in seen:
            yield ("separation", place, "name"), f"two have the name `{entry.name}`; their files would be the same"
        seen.add(entry.name)
        where = ("separation", place, "reference")
        if entry.reference is not None and entry.reference not in entry.models:
            yield where, f"`{entry.reference}` is not one of its `models`{nearest(entry.reference, entry.models)}"
        elif entry.reference is not None and len(set(entry.models)) < 2:
            yield where, f"`models` has nothing beside `{entry.reference}` to compare with it"
