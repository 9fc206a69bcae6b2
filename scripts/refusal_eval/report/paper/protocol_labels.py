"""How tables and figures of a study under `protocol: compat` say so."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from refusal_eval.report.paper.markup import Table

NOTE = (
    "Protocol compat: asked as the published code of Refusal Steering asks (temperature 1, stripped template, special "
    "tokens twice), and c(x) as it scores (failed verdicts vote 0, prompts without answer tokens dropped)."
)


def labelled(frame: pd.DataFrame, table: Table, protocol: str) -> tuple[pd.DataFrame, Table]:
    """Return a table and its frame with the protocol in caption, notes and a first column; unchanged for `default`."""
    if protocol == "default":
        return frame, table
    marked = frame.copy()
    marked.insert(0, "protocol", protocol)
    caption = f"{table.caption} Protocol: {protocol}."
    return marked, dataclasses.replace(table, caption=caption, notes=[NOTE, *table.notes])


def protocol_notes(scores: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the note of a figure's scores; none for scores under the default protocol."""
    return [NOTE] if any(score.get("protocol") == "compat" for score in scores) else []
