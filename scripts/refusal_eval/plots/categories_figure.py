"""The figure of a study's categories: a forest with the refusal rate of every model in each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import pandas as pd
from pydantic import Field

from refusal_eval.config.figure_entry import MOST_CURVES, READING, SPLITS, Ordered
from refusal_eval.config.problems import Mistake
from refusal_eval.config.shapes import Slug, Whole
from refusal_eval.config.study_view import StudyView
from refusal_eval.core.hints import nearest
from refusal_eval.plots.captions import protocol_tag, rates_words, study_words
from refusal_eval.plots.curves import highest, percent_scale
from refusal_eval.plots.figure_data import Caption, Drawn, FigureData, Row
from refusal_eval.plots.layout import EDGE, HINTED, numbers_inside, page, put, widest, wrap_to
from refusal_eval.plots.panels import LOOKS, Legend, Look, PanelGrid
from refusal_eval.plots.style import COLUMN_WIDTH, FAINT, LINE_HEIGHT, styled
from refusal_eval.report.paper.display import Score, headline, mark_of, marks_of, notes_of
from refusal_eval.stats.estimates.flags import derived_flags

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ESTIMAND = "refusal_rate"
ALL = "All"
_MOST_BY_DEFAULT = 6  # splits with categories that are drawn unasked
_TOGETHER, _APART = 3, 8  # models that share a panel, and that have a panel each; more are rows
_LINE, _MARK = 11.0, 5.0  # points for a line, and for each further mark in it
_MODEL = 9.4  # points for a model that is a row
_NARROWEST = 70.0  # points of a panel
_HEAD = 4.0  # points above the name of a split


class CategoriesFigure(Ordered):
    """A forest of the categories of each split: refusal rate and interval of every model."""

    report: ClassVar[tuple[str, str, str]] = (
        "Refusal rates",
        "Refusal rate by category",
        "Refusal rate and interval of each category of the prompts, and of the whole split (thick lines). Numbers in "
        "brackets are prompts; categories of few prompts have wide intervals and are approximate.",
    )
    needs: ClassVar[tuple[str, ...]] = ("estimates", "cards")

    kind: Literal["categories"]
    splits: list[Slug] | None = SPLITS
    reading: Literal["strict", "broad"] | None = READING
    most: Whole = Field(
        12, ge=1, le=60, description="Categories per split, those with the most prompts; fewer where a page is full."
    )

    @classmethod
    def unasked(cls, study: StudyView) -> list[Self]:
        """Return one of the splits with categories; of many models one for each, as a page has room for no more."""
        found = _sorted_in(study)
        if not found or len(found) > _MOST_BY_DEFAULT:
            return []
        if len(study.models) > MOST_CURVES and len(found) > 1:
            return [cls(name=f"categories_{split}", kind="categories", splits=[split]) for split in found]
        return [cls(name="categories", kind="categories", splits=found)]

    def mistakes(self, study: StudyView) -> Iterator[Mistake]:
        """Yield splits without a column of categories."""
        found, column = _sorted_in(study), "a column of categories (`columns.category`)"
        if study.splits and not found:
            yield ("kind",), f"`categories` needs a split with {column}; the study has none"
        for index, name in enumerate(self.splits or []) if found else ():
            if name in study.splits and name not in found:
                yield (
                    ("splits", index),
                    f"`{name}` has no column of categories (`columns.category`)" + nearest(name, found),
                )

    def draw(self, data: FigureData) -> Drawn:
        """Return refusal rate and interval of each category of each split, and of the whole split, for every model.

        Up to three models share a panel and up to eight have a panel each; more are the rows of a panel for each
        category. Of a split with many categories those with the most prompts are shown: as many as asked for and as
        fit a page; the highest mean rate stands first.

        Raises:
            UserError: without categories, or where no page is high enough.
        """
        readings = {score["split"]: score["headline"] for score in data.scores}
        rows = [
            row
            for row in data.estimates
            if (row["estimand"], row["parameter"]) == (ESTIMAND, None)
            and row["category"] is not None
            and row["value"] is not None
            and row["reading"] == readings.get(row["split"])
        ]
        if not rows:
            raise data.undrawable(": no prompt of its splits has a category")
        scores = [score for score in data.scores if score["split"] in {row["split"] for row in rows}]
        whole = [_whole(score) for score in scores if headline(score)["rate"] is not None]
        arrange = _models_below_each_other if len(data.shown.models) > _APART else _lines_below_each_other
        for most in range(self.most, 0, -1):
            lines = _lines(rows, scores, most, data)
            with styled():
                forest = _Forest(arrange(lines, data), [*rows, *whole], data, protocol_tag(scores))
            if data.fits(forest.height):
                return Drawn(forest.draw(), _frame(rows), self._caption(rows, scores, lines, data))
        raise data.too_high(forest.height, "name one of its `splits`, or fewer `models`")

    def _caption(
        self, rows: Sequence[Row], scores: Sequence[Score], lines: Sequence[Line], data: FigureData
    ) -> Caption:
        shown = {(line.split, line.category) for line in lines}
        missing = {(row["split"], row["category"]) for row in rows} - shown
        left_out = {split: sum(of == split for of, _ in missing) for split in data.shown.splits}
        words = ["In brackets: prompts; thick lines: the whole split."]
        words += [
            f"Not shown of {data.labels.split(split)}: {n} {'category' if n == 1 else 'categories'} with fewer prompts."
            for split, n in left_out.items()
            if n
        ]
        splits = [split for split in data.shown.splits if any(score["split"] == split for score in scores)]
        words += [*rates_words(scores), *study_words(data, scores, splits)]
        marks = notes_of(flag for row in rows for flag in row["flags"])
        words += [note for note in marks if note not in words]
        return Caption(self.title or "Refusal rate by category.", words)


class Line(NamedTuple):
    """A line of a forest, or (`head`) the name of a split above its lines; without a category it is the whole split."""

    text: str
    split: str
    category: str | None
    head: bool = False


class _Arrangement(NamedTuple):
    """What has a row and what a panel."""

    wide: bool  # whether a page's width is needed
    rows: list[tuple[str, bool]]  # text of each row, and whether it is a head above others
    # title of each, and for each row the (model, split, category) and look of its marks
    panels: list[tuple[list[str], list[list[tuple[tuple[str, str, str | None], Look]]]]]
    high: tuple[float, float]  # height of a row with one mark, and what is added to that of its text
    legend: list[str]  # names of the looks
    above: list[str]  # the name of all


def _lines_below_each_other(lines: Sequence[Line], data: FigureData) -> _Arrangement:
    models = data.models_in_order()
    together = len(models) <= _TOGETHER
    names = [data.labels.model(model) for model in models]
    panels: list[Any] = []
    for of in [models] if together else [[model] for model in models]:
        marks = [
            [] if line.head else [((model, line.split, line.category), LOOKS[i]) for i, model in enumerate(of)]
            for line in lines
        ]
        panels.append(([] if together else [data.labels.model(of[0])], marks))
    rows = [(line.text, line.head) for line in lines]
    return _Arrangement(len(panels) > 1, rows, panels, (_LINE, 0.0), names if together else [], [])


def _models_below_each_other(lines: Sequence[Line], data: FigureData) -> _Arrangement:
    models = data.models_in_order()
    heads = {line.split: line.text for line in lines if line.head}
    several = len(heads) > 1  # the name of a split then stands over each of its panels, else once
    panels: list[Any] = [
        (
            [heads[line.split], line.text] if several else [line.text],
            [[((model, line.split, line.category), LOOKS[0])] for model in models],
        )
        for line in lines
        if not line.head
    ]
    rows = [(data.labels.model(model), False) for model in models]
    return _Arrangement(True, rows, panels, (_MODEL, 1.6), [], [] if several else [*heads.values()])


class _Forest:
    """Where everything stands, and the drawing of it.

    Attributes:
        height: of the figure in points.
    """

    def __init__(self, arranged: _Arrangement, rows: Sequence[Row], data: FigureData, tag: Sequence[str]) -> None:
        self._rows, self._panels, self._tag = arranged.rows, [marks for _, marks in arranged.panels], tag
        self._found = {(row["model"], row["split"], row["category"]): row for row in rows}
        self._ticks = percent_scale(highest(rows))
        self._width = data.points(arranged.wide)
        room = (0.42 if self._width == COLUMN_WIDTH else 0.26) * self._width
        plain = [wrap_to(text, room) for text, head in arranged.rows if not head]
        self._left = EDGE + HINTED * max(widest(lines) for lines in plain) + 6
        # A head may reach over the first panel, which is empty at its height.
        wide = self._width - 2 * EDGE if len(self._panels) == 1 else self._left + _NARROWEST - EDGE
        self._texts = [wrap_to(text, wide if head else room, bold=head) for text, head in arranged.rows]
        least, more = arranged.high
        least += _MARK * (max(len(marks) for marks in self._panels[0]) - 1)
        self._heights = [
            _HEAD + len(lines) * LINE_HEIGHT if head else max(len(lines) * LINE_HEIGHT + more, least)
            for lines, (_, head) in zip(self._texts, arranged.rows, strict=True)
        ]
        self._above = [line for text in arranged.above for line in wrap_to(text, self._width - 2 * EDGE, bold=True)]
        self._legend = Legend(arranged.legend, self._width - 2 * EDGE)
        titles = [title for title, _ in arranged.panels]
        self._grid = PanelGrid(titles, self._width - self._left - EDGE, sum(self._heights), _NARROWEST)
        self._top = EDGE + len(self._above) * LINE_HEIGHT + self._legend.height + (4 if self._legend.height else 0)
        self.height = self._top + self._grid.height + (1 + len(tag)) * LINE_HEIGHT + EDGE

    def draw(self) -> Figure:
        with styled():
            fig, sheet = page(self._width, self.height)
            put(sheet, EDGE, EDGE, self._above, bold=True)
            self._legend.draw(sheet, EDGE, EDGE, line=False)
            for index, ax in enumerate(self._grid.draw(fig, sheet, self._left, self._top)):
                if self._grid.first_column(index):
                    self._draw_texts(sheet, self._top + self._grid.boxes[index][1])
                self._draw_panel(ax, self._panels[index])
            self._grid.label_axes(sheet, (self._left, self._top), "Refusal rate (%)")
            put(sheet, EDGE, self._top + self._grid.height + LINE_HEIGHT, self._tag)
            return fig

    def _draw_texts(self, sheet: Axes, y: float) -> None:
        for (_, head), lines, height in zip(self._rows, self._texts, self._heights, strict=True):
            if head:
                put(sheet, EDGE, y + _HEAD, lines, bold=True)
            else:
                put(sheet, self._left - 6, y + (height - len(lines) * LINE_HEIGHT) / 2, lines, align="right")
            y += height

    def _draw_panel(self, ax: Axes, rows: Sequence[Sequence[tuple[Any, Look]]]) -> None:
        bottom, ticks = sum(self._heights), self._ticks
        for tick in ticks[1:]:
            ax.axvline(tick, color=FAINT, linewidth=0.5, zorder=0)
        y = 0.0
        for (_, head), marks, height in zip(self._rows, rows, self._heights, strict=True):
            if head:
                ax.axhspan(y, y + height, color="white", linewidth=0, zorder=1)
            else:
                ax.axhline(y + height, color=FAINT, linewidth=0.4, zorder=0)
            for number, (key, look) in enumerate(marks):
                at = y + height / 2 + _MARK * (number - (len(marks) - 1) / 2)
                _draw_mark(ax, self._found.get(key), look, at)
            y += height
        ax.set_xlim(ticks[0], ticks[-1])
        ax.set_ylim(bottom, 0)
        ax.set_yticks([])
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.spines[["top", "right", "left"]].set_visible(False)
        numbers_inside(ax)


def _draw_mark(ax: Axes, row: Row | None, look: Look, y: float) -> None:
    """Draw the rate of a row in percent with its interval, that of a whole split thick; nothing where there is none."""
    if row is None or row["value"] is None:
        return
    if row["low"] is not None and row["high"] is not None:
        ends, thick = [100 * row["low"], 100 * row["high"]], row["category"] is None
        ax.plot(ends, [y, y], color=look.colour, linewidth=1.8 if thick else 0.8, solid_capstyle="butt", zorder=2)
    ax.plot([100 * row["value"]], [y], linestyle="none", **look.point(), clip_on=False, zorder=3)


def _sorted_in(study: StudyView) -> list[str]:
    """The splits with a column of categories."""
    return [name for name, split in study.splits.items() if split.columns.category]


def _whole(score: Score) -> dict[str, Any]:
    """The rate of a whole split, as a row of estimates."""
    part = headline(score)
    names = {"model": score["model"], "split": score["split"], "category": None}
    return names | {"value": part["rate"], "low": part["low"], "high": part["high"]}


def _lines(rows: Sequence[Row], scores: Sequence[Score], most: int, data: FigureData) -> list[Line]:
    """Head, whole split and its categories, for each split that has any, with their marks."""
    lines = []
    for split in data.shown.splits:
        sizes: dict[str, int] = {}
        values: dict[str, list[float]] = {}
        flags: dict[str, set[str]] = {}
        for row in rows:
            if row["split"] == split:
                name = row["category"]
                sizes[name] = max(sizes.get(name, 0), row["n_prompts"] or 0)
                values.setdefault(name, []).append(row["value"])
                flags.setdefault(name, set()).update(row["flags"])
        if not sizes:
            continue
        kept = sorted(sizes, key=lambda name: (-sizes[name], name))[:most]
        means = {name: sum(values[name]) / len(values[name]) for name in kept}
        own = [score for score in scores if score["split"] == split]
        head, at_head = data.labels.split(split) + marks_of(own), set(derived_flags(score["flags"] for score in own))
        lines += [Line(head, split, None, head=True), Line(ALL, split, None)]
        lines += [
            Line(f"{data.category(name)} ({sizes[name]}{mark_of(flags[name] - at_head)})", split, name)
            for name in sorted(kept, key=lambda name: (-means[name], name))
        ]
    return lines


def _frame(rows: Sequence[Row]) -> pd.DataFrame:
    names = ("judge", "model", "split", "category", "reading", "value", "low", "high", "n_prompts", "n_clusters")
    kept = pd.DataFrame([{name: row[name] for name in names} for row in rows], dtype=object)
    return kept.sort_values(["model", "split", "category"])
