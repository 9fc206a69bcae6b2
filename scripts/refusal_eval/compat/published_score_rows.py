"""A study's score rows with the published c(x) in them, for `protocol: compat`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.compat.published_constants import BAND
from refusal_eval.stats.estimates.estimands import Row, band_of


def with_published_scores(rows: Sequence[Row], published: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return rows of `estimands.prompt_scores` whose c and band are the published ones; None where it drops a prompt.

    Args:
        rows: the study's own rows.
        published: what `cell.published_cell` returned.
    """
    found = {(row["prompt_id"], row["turn"]): row["answer_censor_score"] for row in published["scores"]}
    result = []
    for row in rows:
        c = found.get((row["prompt_id"], row["turn"]))
        result.append({**row, "c": c, "band": None if c is None else band_of(c, BAND)})
    return result
