"""Mistakes of the separations of a study, beyond those of all that is made from activations."""

from collections.abc import Iterator

from refusal_eval.config.checked_study import CheckedStudy
from refusal_eval.config.problems import Mistake
from refusal_eval.features.separation.separation_entry import Separation


def separation_mistakes(study: CheckedStudy) -> Iterator[Mistake]:
    """Yield names that two separations have."""
    seen = set[str]()
    for place, entry in study.valid_items("separation", Separation).items():
        if entry.name in seen:
            yield ("separation", place, "name"), f"two have the name `{entry.name}`; their files would be the same"
        seen.add(entry.name)
