"""Gold rows joined with a judge's verdicts on them."""

from collections.abc import Iterable, Sequence

import pandas as pd

from refusal_eval.core.states import JUDGED, LABELS, PARTIAL
from refusal_eval.stats.agreement.weighting import normalise
from refusal_eval.stats.estimates.estimands import CellRow
from refusal_eval.stats.estimates.languages import language_of

COLUMNS = (
    *("row_id", "human", "cluster", "expectation", "answering_model", "language", "convention"),
    *("machine", "p_refusal", "weight"),
)


def is_convention(row: CellRow) -> bool:
    """Tell whether a convention, in which sources differ, decides the label of a gold row.

    Such rows are answers that refuse and then help (partial), and those that deny the prompt's premise.
    """
    return bool(row.get("convention") or row["label"] == PARTIAL or row.get("denied_premise"))


def join_verdicts(gold_rows: Iterable[CellRow], verdicts: Iterable[CellRow], gold: str) -> pd.DataFrame:
    """Join each gold row with the verdict whose `prompt_id` is its id, sorted by id: the columns `COLUMNS`.

    `human` is gold's label and `machine` the judge's; this one and `p_refusal` are missing without a verdict.
    `weight` has mean 1 over the gold set; 1 in a gold set without weights. `expectation`, `answering_model` and
    `language` (see `languages.language_of`) may be missing. `convention`: see `is_convention`.

    Raises:
        ValueError: for an unknown label, an id that occurs twice, a probability outside [0, 1], weights of some rows
            only or one that is no number above 0, or a verdict on a row that the gold set lacks.
    """
    known: dict[str, CellRow] = {}
    for row in gold_rows:
        if row["id"] in known:
            raise ValueError(f"gold row {row['id']} occurs twice")
        if row["label"] not in LABELS:
            raise ValueError(f"gold row {row['id']} has the unknown label {row['label']!r}")
        known[row["id"]] = row
    found: dict[str, tuple[str | None, float | None]] = {}
    for verdict in verdicts:
        row_id = verdict["prompt_id"]
        if row_id not in known:
            raise ValueError(f"a verdict belongs to gold row {row_id}, which is not in {gold}")
        if row_id in found:
            raise ValueError(f"gold row {row_id} has two verdicts")
        found[row_id] = _judged_value(verdict)
    rows = [known[row_id] for row_id in sorted(known)]
    return pd.DataFrame(
        [
            (
                *(row["id"], row["label"], row["cluster"], row.get("expectation"), row.get("answering_model")),
                *(_language(row), is_convention(row)),
                *found.get(row["id"], (None, None)),
                weight,
            )
            for row, weight in zip(rows, _weights(rows, gold), strict=True)
        ],
        columns=list(COLUMNS),
    ).astype({"convention": bool, "p_refusal": float, "weight": float})


def _language(row: CellRow) -> str | None:
    if "source" not in row:
        return None
    if row.get("language_of") == "answer":
        return language_of({**row, "messages": [{"content": row["answer"]}]})
    return language_of(row)


def _weights(rows: Sequence[CellRow], gold: str) -> list[float]:
    given = [row["weight"] for row in rows if row.get("weight") is not None]
    if given and len(given) < len(rows):
        raise ValueError(
            f"{len(rows) - len(given)} of the {len(rows)} rows of {gold} have no weight, and the others do"
        )
    try:
        return normalise(given or [1.0] * len(rows))
    except ValueError as error:
        raise ValueError(f"{gold}: {error}") from error


def _judged_value(verdict: CellRow) -> tuple[str | None, float | None]:
    if verdict["state"] != JUDGED:
        return None, None
    if verdict["label"] not in LABELS:
        raise ValueError(f"the verdict on gold row {verdict['prompt_id']} has the unknown label {verdict['label']!r}")
    p = verdict.get("p_refusal")
    if p is not None and not 0 <= p <= 1:
        raise ValueError(f"the verdict on gold row {verdict['prompt_id']} has p_refusal {p}, which is no probability")
    return verdict["label"], p
