"""Mistakes of the directions of a study, beyond those of all that is made from activations."""

from collections.abc import Iterator

from refusal_eval.config.checked_study import CheckedStudy
from refusal_eval.config.problems import Mistake
from refusal_eval.features.steering.direction_entry import LEAST_NEGATIVE, RIDGE, Direction


def direction_mistakes(study: CheckedStudy) -> Iterator[Mistake]:
    """Yield each direction whose covariance would be of too few prompts."""
    for name, direction in study.entries("directions").items():
        if too_few := _too_few(study, direction):
            yield ("directions", name, "negative"), too_few


def _too_few(study: CheckedStudy, direction: Direction) -> str | None:
    """Return why a negative side has too few prompts for its covariance, where the config alone says so."""
    split = study.catalogue.valid["splits"].get(direction.negative.split)
    if split is None or direction.allow_few or direction.fitted not in RIDGE:
        return None
    sizes = [one.size for one in (split.sample, study.settings.prompts_per_split) if one]
    sizes += [rows for rows in (split.expected_rows, split.expected_kept) if rows is not None and not split.dialogue]
    if not sizes or min(sizes) > LEAST_NEGATIVE:  # at least one prompt is held out
        return None
    return (
        f"has at most {min(sizes)} prompts, of which at least one is held out, and `{direction.fitted}` needs "
        f"{LEAST_NEGATIVE} to fit a covariance on; give it more, take `{direction.fitted.replace('rmd', 'md')}`, or "
        "say `allow_few: true`"
    )
