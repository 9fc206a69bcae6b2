"""The steps between a split and its seeds."""

from collections.abc import Mapping

from refusal_eval.config.datasets import Split


def steps_between(splits: Mapping[str, Split], seeds: str, last: str) -> list[str] | None:
    """Return the splits that lead from seeds to a split, the seeds left out; None where none do.

    Args:
        splits: entries by name, of which wrong ones may be missing.
    """
    steps = [last]
    while (entry := splits.get(steps[0])) is not None and entry.source.made_of is not None:
        if entry.source.made_of == seeds:
            return steps
        if entry.source.made_of in steps:  # a circle, which is reported elsewhere
            return None
        steps.insert(0, entry.source.made_of)
    return None
