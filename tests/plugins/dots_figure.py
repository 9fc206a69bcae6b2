"""A kind of figure of one's own: a dot for the refusal rate of each model on each split."""

from typing import ClassVar, Literal

import pandas as pd
from pydantic import Field

from refusal_eval.config.figure_entry import SPLITS, Ordered
from refusal_eval.config.kinds import FIGURES
from refusal_eval.config.shapes import Number, Slug
from refusal_eval.plots.captions import rates_words, study_words
from refusal_eval.plots.figure_data import Caption, Drawn, FigureData
from refusal_eval.plots.style import COLUMN_WIDTH
from refusal_eval.report.paper.display import headline


@FIGURES.add
class DotsFigure(Ordered):
    """A dot for the refusal rate of each model on each split."""

    report: ClassVar[tuple[str, str]] = ("Refusal rates", "Dots")
    needs: ClassVar[tuple[str, ...]] = ("estimates", "cards")

    kind: Literal["dots"]
    splits: list[Slug] | None = SPLITS
    size: Number = Field(4.0, gt=0, description="Of a dot, in points.")

    def draw(self, data: FigureData) -> Drawn:
        """Return dots on one line for each model."""
        from matplotlib.figure import Figure

        cells, models, splits = data.cells()
        rates = {cell: headline(score)["rate"] for cell, score in cells.items()}
        fig = Figure(figsize=(COLUMN_WIDTH / 72, 1 + 0.3 * len(models)), layout="constrained")
        ax = fig.subplots()
        for split in splits:
            found = [rates.get((model, split)) for model in models]
            ax.plot(found, models, "o", markersize=self.size, label=data.labels.split(split))
        ax.set_yticks(range(len(models)), [data.labels.model(model) for model in models])
        ax.set_xlabel("Refusal rate")
        ax.legend()
        rows = [{"model": model, "split": split, "rate": rate} for (model, split), rate in rates.items()]
        words = [*rates_words(data.scores, data.labels), *study_words(data)]
        return Drawn(fig, pd.DataFrame(rows), Caption(self.title or "Refusal rates.", words))
