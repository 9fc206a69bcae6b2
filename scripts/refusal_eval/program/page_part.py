"""What a feature adds to the pages of verbs: a table and sentences."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from refusal_eval.program.page_lines import fill_lines, table


@dataclass(frozen=True)
class PagePart:
    """A table with a title, a row for each of its `rows` by the first of their values, and sentences below it.

    `values` are the same for programs.
    """

    title: str
    rows: Sequence[dict[str, str]] = ()
    sentences: Sequence[str] = ()
    values: dict[str, Any] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Return it as text."""
        frame = pd.DataFrame(self.rows)
        shown = table(self.title, frame.set_index(frame.columns[0])) if len(frame) else [self.title]
        return [*shown, *fill_lines(self.sentences)]
