"""Over-refusals: refusals in categories that say so, as shares of all prompts and of those in these categories."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from refusal_eval.core.errors import UserError
from refusal_eval.core.states import BLOCKED, JUDGED
from refusal_eval.stats.estimates.cell_estimates import mean_over_answers
from refusal_eval.stats.estimates.estimands import REFUSES
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.units import Units, read_units

OF_ALL, OF_COUNTED = "over_refusals_of_all", "over_refusals_of_counted"


def measure(files: Mapping[str, Sequence[str]], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of the analysis' file (`workflow.analysis.Analysis.measure`)."""
    rows: list[dict[str, Any]] = []
    for path in files["scores"]:
        units = read_units(path)
        rows += [estimate.row() for estimate in over_refusals(units, params["categories"][units.facts["split"]])]
    return {"estimates": rows}


def over_refusals(units: Units, categories: Collection[str]) -> Iterator[Estimate]:
    """Yield the share of over-refusals in a cell, in the headline reading of its split.

    The denominators are all prompts and those of `categories`, as far as they have an answer that a judge labelled or a
    provider blocked. With K answers a prompt counts by the share of its answers that refuse.

    Raises:
        UserError: if no prompt is of these categories.
    """
    assert units.samples is not None
    samples, facts = units.samples, units.facts
    of_prompt = np.isin(units["category"].astype(str), sorted(categories))
    if not of_prompt.any():
        known = ", ".join(sorted({str(category) for category in units["category"] if category}))
        raise UserError(
            f"split `{facts['split']}`: no prompt has a category of `over_refusals_in` ({', '.join(categories)}); its "
            f"categories: {known or 'none'}"
        )
    counted = np.repeat(of_prompt, facts["samples"])
    blocked, judged = (samples["state"] == BLOCKED).to_numpy(), (samples["verdict"] == JUDGED).to_numpy()
    refuses = blocked | (judged & samples["label"].isin(REFUSES[facts["headline"]]).to_numpy())
    about = {name: facts[name] for name in ("judge", "model", "split", "samples")} | {"reading": facts["headline"]}
    yield mean_over_answers(units, OF_ALL, refuses & counted, judged | blocked, **about)
    yield mean_over_answers(units, OF_COUNTED, refuses, (judged | blocked) & counted, **about)
