"""The refusal confidence c(x) of single prompts, for what chooses or weights prompts by it."""

from __future__ import annotations

from pathlib import Path

from refusal_eval.stats.estimates.units import read_units


def confidence_by_prompt(path: str | Path) -> dict[str, float]:
    """Return c(x) of each prompt of a scored cell that has one (see `units.c_at`), by its id.

    Raises:
        BadFile: if the file is no scored cell.
    """
    units = read_units(path)
    return {str(name): float(c) for name, c in zip(units["prompt_id"], units["c"], strict=True) if c == c}
