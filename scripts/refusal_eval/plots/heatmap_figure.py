"""The figure of a study's refusal rates: a heatmap with the numbers in it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import pandas as pd

from refusal_eval.config.figure_entry import READING, SPLITS, Ordered
from refusal_eval.config.shapes import Slug
from refusal_eval.config.study_view import StudyView
from refusal_eval.plots.base import Tile, numbers_inside, settle, text_width, tile_table
from refusal_eval.plots.captions import (
    everywhere_words,
    label_with_protocol,
    rates_words,
    short_words,
    study_words,
    within,
)
from refusal_eval.plots.figure_data import Caption, Drawn, FigureData, ModelSplit
from refusal_eval.plots.shared_marks import shared_flags
from refusal_eval.plots.style import RATE_COLOURS
from refusal_eval.report.paper.display import EN_DASH, NO_DATA, Score, headline, interval, mark_of, percent
from refusal_eval.report.paper.table_notes import level_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SCALE = 3.0  # points, the height of the colour scale
_SIDE = 3.0  # points left free in a cell, both sides together
Form = Callable[[str, str], str]
# An interval and its marks, in the narrower form where one of them has no room for the wider.
_FORMS: tuple[Form, ...] = (lambda ends, marks: ends + marks, lambda ends, marks: ends.strip("[]") + marks)
_COLUMNS = 3  # splits that a narrow figure has room for


class HeatmapFigure(Ordered):
    """Refusal rates as tiles: a row per model, a column per split, rate and interval in each."""

    report: ClassVar[tuple[str, str]] = ("Refusal rates", "Rates by model and split")
    needs: ClassVar[tuple[str, ...]] = ("estimates", "cards")

    kind: Literal["heatmap"]
    splits: list[Slug] | None = SPLITS
    reading: Literal["strict", "broad"] | None = READING

    @classmethod
    def unasked(cls, study: StudyView) -> list[Self]:
        return [cls(name="refusal_heatmap", kind="heatmap")]

    def draw(self, data: FigureData) -> Drawn:
        """Return a row per model, a column per split, rate and interval in each cell.

        It is as wide as a column for up to three splits on which all models fit a page, else as the page. Splits that
        the study does not order for it are grouped by what is expected.

        Raises:
            ValueError: without scores, or for two of one cell.
        """
        cells, rows, columns = data.cells()
        columns = columns if self.splits else data.by_expectation(columns)
        fig = data.fitting(lambda width: _draw(cells, rows, columns, width, data), len(columns) > _COLUMNS)
        rated = [cell for cell, score in cells.items() if headline(score)["rate"] is not None]
        words = [
            "In each cell the rate in percent and its interval; above the columns what is expected of a well-behaved "
            "model. Dark is good below \u2191 and bad below \u2193.",
            *([f"{NO_DATA} no answer that counts."] if len(rated) < len(rows) * len(columns) else []),
            *rates_words(data.scores, data.labels),
            *study_words(data),
        ]
        everywhere = _everywhere(cells)
        words += everywhere_words(everywhere)
        title = self.title or "Refusal rate of each model on each split."
        needed = short_words(data, f"Rate (%) with {level_text(data.scores)} CI", everywhere=everywhere)
        further = ["Dark is good below \u2191 and bad below \u2193."]
        return Drawn(fig, _frame(cells), Caption(title, words, within(title, needed, further)))


def _everywhere(cells: Mapping[ModelSplit, Score]) -> set[str]:
    return shared_flags(score["flags"] for score in cells.values())


def _draw(
    cells: Mapping[ModelSplit, Score], rows: Sequence[str], columns: Sequence[str], width: float, data: FigureData
) -> Figure:
    import matplotlib as mpl
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    everywhere = _everywhere(cells)

    def tiles_at(step: float) -> dict[tuple[int, int], Tile]:
        room = step - _SIDE
        ends = [(_ends(score), _marks(score, everywhere)) for score in cells.values()]
        form = next((form for form in _FORMS if all(text_width(form(*one)) <= room for one in ends)), None)
        found: dict[tuple[int, int], Tile] = {}
        for i, model in enumerate(rows):
            for j, split in enumerate(columns):
                score = cells.get((model, split))
                found[i, j] = ([NO_DATA], None)
                if score is not None:
                    found[i, j] = _cell_lines(score, everywhere, room, form), headline(score)["rate"]
        return found

    names, labels = [data.labels.model(model) for model in rows], [data.labels.split(split) for split in columns]
    expected = data.expectations(columns)
    narrowest = _SIDE + max(text_width(_FORMS[-1](_ends(score), _marks(score, everywhere))) for score in cells.values())
    fig, (ax, scale), heights = tile_table(
        width, names, labels, tiles_at, narrowest=narrowest, below=[_SCALE], expected=expected
    )
    colours = ScalarMappable(Normalize(0, 100), mpl.colormaps[RATE_COLOURS])
    bar = fig.colorbar(colours, cax=scale, orientation="horizontal", ticks=[0, 50, 100])
    bar.outline.set_linewidth(0.4)
    if bar.solids is not None:  # viewers would show white lines between the steps of the scale
        bar.solids.set_edgecolor("face")
    scale.set_xlabel(label_with_protocol("Refusal rate (%)", data.scores))
    numbers_inside(scale)
    return settle(fig, ax, heights)


def _ends(score: Score) -> str:
    part = headline(score)
    return interval(part["low"], part["high"], digits=0)


def _marks(score: Score, everywhere: Collection[str]) -> str:
    return mark_of(set(score["flags"]) - set(everywhere))


def _cell_lines(score: Score, everywhere: Collection[str], width: float, form: Form | None) -> list[str]:
    """Rate, then interval with the marks, as in tables; in narrow columns its upper end has a line of its own."""
    part, symbols = headline(score), _marks(score, everywhere)
    rate = percent(part["rate"], digits=0)
    if part["low"] is None or part["high"] is None:
        return [rate + symbols]
    if form is not None:
        return [rate, form(_ends(score), symbols)]
    upper = percent(part["high"], digits=0)
    last = [upper + symbols] if text_width(upper + symbols) <= width else [upper, symbols]
    return [rate, percent(part["low"], digits=0) + EN_DASH, *last]


def _frame(cells: Mapping[ModelSplit, Score]) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for (model, split), score in sorted(cells.items()):
        part = headline(score)
        names = {"judge": score["judge"], "model": model, "split": split, "reading": score["headline"]}
        numbers = {key: part[key] for key in ("rate", "low", "high")}
        rows.append(names | numbers | {"flags": score["flags"]})
    return pd.DataFrame(rows, dtype=object)
