"""The names of what the model alone did: of numbers in which answers that were blocked have no part.

A refusal rate as a user meets it counts blocked answers as refusals. That of the model alone leaves them out, as its
units do (`units.Units.model_alone`), and so does every number that is made of them. Such a number has the name of the
other one and this ending.
"""

import dataclasses
from collections.abc import Iterable, Mapping

from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.units import JudgedCell, Units

MODEL_ALONE = "_model_alone"
# What `cell_estimates.model_alone_estimates` and pools of it give.
OF_CELLS = ("refusal_rate", "refusal_rate_turn", "refusal_rate_at_least", "refusal_rate_at_most", "effective_answers")


def is_of_model_alone(estimate: Estimate) -> bool:
    return estimate.estimand.endswith(MODEL_ALONE)


def named_model_alone(estimates: Iterable[Estimate]) -> list[Estimate]:
    """Return estimates that were made of the model alone, under their names."""
    return [dataclasses.replace(e, estimand=e.estimand + MODEL_ALONE) for e in estimates]


def as_user_meets_it(estimates: Iterable[Estimate]) -> list[Estimate]:
    """Return the rows that are not of the model alone."""
    return [e for e in estimates if not is_of_model_alone(e)]


def of_model_alone(estimates: Iterable[Estimate]) -> list[Estimate]:
    """Return the rows of the model alone, under the names of those as a user meets them; empty in most studies."""
    return [
        dataclasses.replace(e, estimand=e.estimand.removesuffix(MODEL_ALONE)) for e in estimates if is_of_model_alone(e)
    ]


def cells_of_model_alone(cells: Mapping[JudgedCell, Units], may_block: bool) -> dict[JudgedCell, Units]:
    """Return the cells of the model alone; none where nothing was blocked and no engine `may_block`."""
    if not may_block and not any(units["n_blocked"].any() for units in cells.values()):
        return {}
    return {cell: units.model_alone() for cell, units in cells.items()}


def unblocked(estimates: Iterable[Estimate]) -> list[Estimate]:
    """Return the rows of the model alone that models lack of which nothing was blocked, where other models have some.

    They are those as a user meets it. Such models lack them where no kind of engine says that it `may_block`.
    """
    found = list(estimates)
    known = {(e.judge, e.model) for e in found if is_of_model_alone(e)}
    equal = (e for e in found if e.estimand in OF_CELLS and (e.judge, e.model) not in known)
    return named_model_alone(equal) if known else []
