"""Shares of the answers that refuse, by who refused."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from refusal_eval.core.states import BLOCKED, EARLIER_TURN, JUDGED
from refusal_eval.features.who_refused.refusers import DECLARED, REFUSED_BY, REFUSERS, UNFILTERED
from refusal_eval.stats.estimates import samples as columns
from refusal_eval.stats.estimates.cell_estimates import mean_over_answers
from refusal_eval.stats.estimates.estimands import REFUSES
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.units import Units, read_units


def measure(files: Mapping[str, Sequence[str]], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of the analysis' file (`workflow.analysis.Analysis.measure`)."""
    found = [row.row() for path in files["scores"] for row in refusers(read_units(path))]
    return {"estimates": found}


def methods_words(results: Sequence[Estimate]) -> dict[str, Any]:
    """Return what the methods section says of its numbers (`workflow.analysis.Analysis.methods_words`)."""
    used = {e.parameter for e in results if e.estimand == REFUSED_BY and e.value}
    return {"refusers": [words for name, words in REFUSERS.items() if name in used]}


def refusers(units: Units) -> Iterator[Estimate]:
    """Yield how much of the refusal rate of a cell, in its headline reading, is whose.

    refused_by                  of each of `REFUSERS`; together they are the refusal rate as a user meets it
    declared_called_refusal     of the declared refusals that the judge labelled, the share it calls refusals; nothing
                                without any
    unfiltered_answers          answers at which a filter was out of order
    """
    assert units.samples is not None
    samples, facts = units.samples, units.facts
    reading = facts["headline"]
    said = {name: samples.get(name, pd.Series(None, samples.index, dtype=object)) for name in columns.SERVER}
    judged, blocked = ((samples[name] == state).to_numpy() for name, state in (("verdict", JUDGED), ("state", BLOCKED)))
    refuses = judged & samples["label"].isin(REFUSES[reading]).to_numpy()
    declared = said["declared"].eq(True).to_numpy()
    who = np.where(declared, "declared", "model").astype(object)
    who[blocked] = list(map(blocker, said["blocked_by"][blocked], said["blocked_stage"][blocked]))
    names = {name: facts[name] for name in ("judge", "model", "split", "samples")}
    for name in REFUSERS:
        share = (refuses | blocked) & (who == name)
        about = names | {"reading": reading, "parameter": name}
        yield mean_over_answers(units, REFUSED_BY, share, judged | blocked, **about)
    if (judged & declared).any():
        yield mean_over_answers(units, DECLARED, refuses, judged & declared, **names, reading=reading)
    unfiltered = said["unfiltered"].eq(True).sum()
    yield Estimate(UNFILTERED, float(unfiltered), **names, n_prompts=len(units), flags=units.flags)


def blocker(by: Any, stage: Any) -> str:
    """Return the name in `REFUSERS` of who blocked an answer at a stage; None for what nobody says."""
    if stage == EARLIER_TURN:
        return EARLIER_TURN
    if not by or by != by:
        return "nobody"
    place = f"{by}_{stage}"
    return place if place in REFUSERS else str(by)
