"""What stands in the place of a figure that cannot be drawn."""

from __future__ import annotations

import pandas as pd

from refusal_eval.plots.layout import EDGE, page, put, wrap_to
from refusal_eval.plots.plot import Caption, Drawn, Plot
from refusal_eval.plots.style import COLUMN_WIDTH, LINE_HEIGHT, styled


def placeholder(reason: str, plot: Plot) -> Drawn:
    """Return a figure that says why there is none, with an empty table."""
    with styled():
        lines = wrap_to(f"Not drawn: {reason}", COLUMN_WIDTH - 2 * EDGE)
        fig, sheet = page(COLUMN_WIDTH, 2 * EDGE + len(lines) * LINE_HEIGHT)
        put(sheet, EDGE, EDGE, lines)
    return Drawn(fig, pd.DataFrame({"not_drawn": [reason]}, dtype=object), Caption("Not drawn.", [f"{reason}."]))
