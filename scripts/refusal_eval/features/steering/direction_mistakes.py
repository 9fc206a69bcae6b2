"""Mistakes of the directions of a study, beyond those of all that is made from activations."""

from collections.abc import Iterator

from refusal_eval.config.checked_study import CheckedStudy
from refusal_eval.config.problems import Mistake
from refusal_eval.core.side_names import groups_of
from refusal_eval.features.steering.direction_entry import LEAST_NEGATIVE, RIDGE, Direction


def direction_mistakes(study: CheckedStudy) -> Iterator[Mistake]:
    """Yield each direction whose covariance would be of too few prompts."""
    for name, direction in study.entries("directions").items():
        if too_few := _too_few(study, direction):
            yield ("directions", name, "negative"), too_few


def _too_few(study: CheckedStudy, direction: Direction) -> str | None:
    """Return why a negative side has too few prompts for its covariance, where the config alone says so."""
    if direction.allow_few or direction.fitted not in RIDGE:
        return None
    sizes = [_most_prompts(study, part.split) for part in groups_of(direction.negative)]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes) or sum(known) > LEAST_NEGATIVE:  # at least one prompt is held out
        return None
    return (
        f"has at most {sum(known)} prompts, of which at least one is held out, and `{direction.fitted}` needs "
        f"{LEAST_NEGATIVE} to fit a covariance on; give it more, take `{direction.fitted.replace('rmd', 'md')}`, or "
        "say `allow_few: true`"
    )


def _most_prompts(study: CheckedStudy, name: str) -> int | None:
    """Return how many prompts a split has at most; None where the config alone does not say it."""
    split = study.catalogue.valid["splits"].get(name)
    if split is None:
        return None
    sizes = [one.size for one in (split.sample, study.settings.prompts_per_split) if one]
    sizes += [rows for rows in (split.expected_rows, split.expected_kept) if rows is not None and not split.dialogue]
    return min(sizes, default=None)
