"""How many of the rows that a writer was asked for are prompts, and what became of the others."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.features.written.written_rows import STATE, WrittenRows
from refusal_eval.features.written.written_states import STATES, WRITTEN
from refusal_eval.stats.estimates.estimate import Estimate

SHARE, BECAUSE = "written_rows", "not_written_because"


def measure(files: Mapping[str, Sequence[str]], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the share of the rows of each written split that are prompts, and of the others by what became of them."""
    found, left = [], list(files["read"])
    for name, split in params["splits"].items():
        source = WrittenRows.model_validate(split["source"])
        read, left = left[: split["files"]], left[split["files"] :]
        counts = Counter(row[STATE] for row in source.own_rows("", *read))
        about: dict[str, Any] = {"model": source.by, "split": name, "n_prompts": counts.total()}
        found.append(Estimate(SHARE, counts[WRITTEN] / counts.total(), **about))
        found += [
            Estimate(BECAUSE, counts[state] / counts.total(), parameter=state, **about)
            for state in STATES
            if state != WRITTEN and counts[state]
        ]
    return {"estimates": [estimate.row() for estimate in found]}


def methods_words(results: Sequence[Estimate]) -> dict[str, Any]:
    """Return what the methods section says of written splits: the share of each that was written."""
    return {"written": [row for row in results if row.estimand == SHARE]}
