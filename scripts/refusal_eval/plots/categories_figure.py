"""The figure of a study's categories: a forest with the refusal rate of every model in each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import pandas as pd
from pydantic import Field

from refusal_eval.config.datasets import Split
from refusal_eval.config.figure_entry import MOST_CURVES, READING, SPLITS, Ordered
from refusal_eval.config.problems import Mistake
from refusal_eval.config.shapes import Slug, Whole
from refusal_eval.config.study_view import StudyView
from refusal_eval.core.hints import nearest
from refusal_eval.plots.base import (
    EDGE,
    LOOKS,
    draw_mark,
    legend,
    name_rows,
    numbers_inside,
    panels,
    settle,
    widest,
    wrap_to,
)  # fmt: skip
from refusal_eval.plots.captions import (
    everywhere_words,
    label_with_protocol,
    prompts_words,
    rates_words,
    short_words,
    study_words,
    within,
)
from refusal_eval.plots.curves import gaps_words, highest, percent_scale
from refusal_eval.plots.figure_data import Caption, Drawn, FigureData, ResultRow, fits, most_that_fits
from refusal_eval.plots.shared_marks import shared_flags
from refusal_eval.plots.style import FAINT, LINE_HEIGHT, PALE
from refusal_eval.report.paper.display import Score, flags_in, headline, mark_of, natural, notes_of
from refusal_eval.report.paper.table_notes import level_text
from refusal_eval.report.results.cells import has_turns
from refusal_eval.stats.estimates.flags import derived_flags

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ESTIMAND = "refusal_rate"
_MOST_BY_DEFAULT = 6  # splits with categories that are drawn unasked
_SMALL_SPLIT = 50  # rows; of a smaller split hardly any category has `fewest` prompts
_TOGETHER, _APART = 3, 8  # models that share a panel, and that have a panel each; more are rows
_LINE, _MARK = 11.0, 5.0  # points for a line, and for each further mark in it
_NARROWEST = 70.0  # points of a panel
_COLUMNS = ["judge", "model", "split", "category", "reading", "value", "low", "high"]
_COLUMNS += ["n_prompts", "n_clusters", "flags"]


class CategoriesFigure(Ordered):
    """A forest of the categories of each split: refusal rate and interval of every model."""

    report: ClassVar[tuple[str, str]] = ("Refusal rates", "Rates by category")
    needs: ClassVar[tuple[str, ...]] = ("estimates", "cards")

    kind: Literal["categories"]
    splits: list[Slug] | None = SPLITS
    reading: Literal["strict", "broad"] | None = READING
    most: Whole = Field(
        12, ge=1, le=60, description="Categories per split, those with the most prompts; fewer where a page is full."
    )

    fewest: Whole = Field(
        10, ge=1, description="Prompts (of dialogues scored turns) that a category has at least; others are left out."
    )

    order_by: Literal["rate", "name"] = Field(
        "rate", description="Order of a split's categories: the highest mean rate first, or by their names."
    )

    @classmethod
    def unasked(cls, study: StudyView) -> list[Self]:
        found = [name for name in _category_splits(study) if _rows(study.splits[name]) >= _SMALL_SPLIT]
        if not found or len(found) > _MOST_BY_DEFAULT:
            return []
        if len(study.models) > MOST_CURVES and len(found) > 1:
            return [cls(name=f"categories_{split}", kind="categories", splits=[split]) for split in found]
        return [cls(name="categories", kind="categories", splits=found)]

    def mistakes(self, study: StudyView) -> Iterator[Mistake]:
        """Yield splits without a column of categories."""
        found, column = _category_splits(study), "a column of categories (`columns.category`)"
        if study.splits and not found:
            yield ("kind",), f"`categories` needs a split with {column}; the study has none"
        for index, name in enumerate(self.splits or []) if found else ():
            if name in study.splits and name not in found:
                yield (
                    ("splits", index),
                    f"`{name}` has no column of categories (`columns.category`)" + nearest(name, found),
                )

    def draw(self, data: FigureData) -> Drawn:
        """Draw refusal rate and interval of each category of each split, and of the whole split, for every model.

        Up to three models share a panel and up to eight have a panel each; more are the rows of a panel for each
        category. A split with many categories shows those with the most prompts: as many as requested and as fit a
        page; the highest mean rate comes first.

        Raises:
            UserError: without categories, or if no page is high enough.
        """
        readings = {score["split"]: score["headline"] for score in data.scores}
        every = [
            row
            for row in data.estimates
            if (row["estimand"], row["parameter"]) == (ESTIMAND, None)
            and row["category"] is not None
            and row["reading"] == readings.get(row["split"])
        ]
        rows = [row for row in every if row["value"] is not None]
        if not rows:
            raise data.undrawable(": no prompt of its splits has a category")
        large = _large(rows, self.fewest)
        if not large:
            raise data.undrawable(f": no category has {self.fewest} prompts; `fewest` of the figure asks for that many")
        scores = [score for score in data.scores if score["split"] in {row["split"] for row in rows}]
        whole = [_whole(score) for score in scores if headline(score)["rate"] is not None]

        def draw(most: int) -> Figure:
            return _draw(_lines(large, scores, most, data, self.order_by), [*large, *whole], data)

        most, fig = most_that_fits(draw, self.most)
        if not fits(fig):
            raise data.too_high(fig, "name one of its `splits`, or fewer `models`")
        frame = pd.DataFrame([*rows, *whole], columns=_COLUMNS, dtype=object)
        frame = frame.sort_values(["model", "split", "category"], na_position="first")
        return Drawn(fig, frame, self._caption(every, scores, _lines(large, scores, most, data, self.order_by), data))

    def _caption(
        self, rows: Sequence[ResultRow], scores: Sequence[Score], lines: Sequence[Line], data: FigureData
    ) -> Caption:
        shown = {(line.split, line.category) for line in lines}
        missing = {(row["split"], row["category"]) for row in rows if row["value"] is not None} - shown
        small = {(row["split"], row["category"]) for row in rows if row["value"] is not None}
        small -= {(row["split"], row["category"]) for row in _large(rows, self.fewest)}
        missing -= small
        words = [f"In brackets: {prompts_words(scores)}; thick lines: the whole split."]
        if small:
            several = "categories" if len(small) > 1 else "category"
            words.append(f"Not shown: {len(small)} {several} with fewer than {self.fewest} prompts.")
        left_out = {split: sum(of == split for of, _ in missing) for split in data.shown.splits}
        words += [
            f"Not shown of {data.labels.split(split)}: {n} {'category' if n == 1 else 'categories'} with fewer prompts."
            for split, n in left_out.items()
            if n
        ]
        wanted = [row for row in rows if (row["split"], row["category"]) not in missing | small]
        words += gaps_words(wanted, data, part="in some categories")
        splits = [split for split in data.shown.splits if any(score["split"] == split for score in scores)]
        words += [*rates_words(scores, data.labels), *study_words(data, scores, splits)]
        drawn = [row for row in rows if (row["split"], row["category"]) in shown]
        marks = notes_of(flags_in([*scores, *drawn]))
        words += [note for note in marks if note not in words]
        if marks and len({score["model"] for score in scores}) > 1:
            words.append("A mark at a split or a category applies to at least one model there.")
        everywhere = _everywhere(drawn)
        words += everywhere_words(everywhere)
        title = self.title or "Refusal rate by category."
        what = (
            f"Rate (%) with {level_text(scores)} CI; in brackets {'scored turns' if has_turns(scores) else 'prompts'}"
        )
        needed = short_words(data, what, scores, flags_in([*scores, *drawn]), everywhere)
        further = ["Thick: the whole split."]
        if small:
            further.append(f"Left out: categories of fewer than {self.fewest} prompts.")
        return Caption(title, words, within(title, needed, further))


class Line(NamedTuple):
    """A line of a forest; without a category it is the whole split."""

    text: str
    split: str
    category: str | None


def _large(rows: Sequence[ResultRow], fewest: int) -> list[ResultRow]:
    """Return the rows with a value of the categories that have so many prompts."""
    known = [row for row in rows if row["value"] is not None]
    sizes: dict[tuple[str, str], int] = {}
    for row in known:
        key = (row["split"], row["category"])
        sizes[key] = max(sizes.get(key, 0), row["n_prompts"] or 0)
    return [row for row in known if sizes[row["split"], row["category"]] >= fewest]


def _everywhere(rows: Sequence[ResultRow]) -> set[str]:
    return shared_flags(row["flags"] for row in rows)


def _draw(lines: Sequence[Line], rows: Sequence[ResultRow], data: FigureData) -> Figure:
    """Draw categories below each other, in a panel for up to three models or for each; more models are the rows."""
    models, name = data.models_in_order(), data.labels.model
    together, several = len(models) <= _TOGETHER, len({line.split for line in lines}) > 1
    # of each panel and row: the (model, split, category) of its marks
    if len(models) > _APART:
        named = [several and line.category is not None for line in lines]  # by their split too
        titles = [
            f"{data.labels.split(line.split)}: " * own + line.text for own, line in zip(named, lines, strict=True)
        ]
        names, heads = [name(model) for model in models], []
        keys = [[[(model, line.split, line.category)] for model in models] for line in lines]
    else:
        names, heads = [line.text for line in lines], [i for i, line in enumerate(lines) if line.category is None]
        titles = [""] if together else [name(model) for model in models]
        groups = [models] if together else [[model] for model in models]
        keys = [[[(model, line.split, line.category) for model in of] for line in lines] for of in groups]
    width = data.points(len(titles) > 1)
    room = (0.4 if len(titles) == 1 else 0.28) * width
    texts = [wrap_to(text, room) for i, text in enumerate(names)]
    left = EDGE + max(widest(found) for i, found in enumerate(texts))
    heights = [max(len(found) * LINE_HEIGHT + 2, _LINE + _MARK * (len(keys[0][0]) - 1)) for found in texts]
    fig, axes, columns = panels(titles, width, sum(heights), _NARROWEST, left)
    if together:
        legend(fig, [look.sample() for look in LOOKS[: len(models)]], [name(model) for model in models])
    by_key = {(row["model"], row["split"], row["category"]): row for row in rows}
    ticks = percent_scale(highest(rows))
    for index, (ax, of_panel) in enumerate(zip(axes, keys, strict=True)):
        own = ["\n".join(found) if index % columns == 0 else "" for found in texts]
        for middle, of_row in zip(name_rows(ax, heights, own), of_panel, strict=True):
            for number, (key, look) in enumerate(zip(of_row, LOOKS, strict=False)):
                if row := by_key.get(key):
                    ends, at = (row["low"], row["high"]), middle + _MARK * (number - (len(of_row) - 1) / 2)
                    draw_mark(ax, look, row["value"], ends, at, thick=row["category"] is None, factor=100)
        for tick in ticks[1:]:
            ax.axvline(tick, color=FAINT, linewidth=0.5, zorder=0)
        for i in heads:
            ax.axhspan(sum(heights[:i]), sum(heights[: i + 1]), color=PALE, linewidth=0, zorder=0)
        for row_number in range(1, len(heights) + 1):
            ax.axhline(sum(heights[:row_number]), color=FAINT, linewidth=0.4, zorder=0)
        ax.set_xlim(ticks[0], ticks[-1])
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        numbers_inside(ax)
    fig.supxlabel(label_with_protocol("Refusal rate (%)", data.scores))
    return settle(fig, axes[0], [sum(heights)] * -(-len(axes) // columns))


def _category_splits(study: StudyView) -> list[str]:
    """Return the splits with a category column."""
    return [name for name, split in study.splits.items() if split.columns.category]


def _rows(split: Split) -> float:
    """Return how many rows a split has, as its entry says; infinity where it does not say."""
    return split.expected_kept or split.expected_rows or math.inf


def _whole(score: Score) -> dict[str, Any]:
    """The rate of a whole split, as a row of estimates."""
    part = headline(score)
    names = {"judge": score["judge"], "model": score["model"], "split": score["split"], "category": None}
    ends = {"reading": score["headline"], "value": part["rate"], "low": part["low"], "high": part["high"]}
    size = {"n_prompts": score["n_scored_turns"], "n_clusters": score["n_clusters"], "flags": score["flags"]}
    return names | ends | size


def _lines(
    rows: Sequence[ResultRow], scores: Sequence[Score], most: int, data: FigureData, order_by: str
) -> list[Line]:
    """Each split that has categories, and these, with their marks."""
    lines = []
    everywhere = _everywhere(rows)
    for split in data.shown.splits:
        found: dict[str, list[ResultRow]] = {}
        for row in rows:
            if row["split"] == split:
                found.setdefault(row["category"], []).append(row)
        if not found:
            continue
        sizes = {name: max(row["n_prompts"] or 0 for row in own) for name, own in found.items()}
        means = {name: sum(row["value"] for row in own) / len(own) for name, own in found.items()}
        kept = sorted(sizes, key=lambda name: (-sizes[name], natural(name)))[:most]
        whole = [score for score in scores if score["split"] == split]
        lines.append(Line(data.labels.split(split) + mark_of(flags_in(whole) - everywhere), split, None))
        marked = set(derived_flags(score["flags"] for score in whole))
        for name in sorted(kept, key=lambda name: (0.0 if order_by == "name" else -means[name], natural(name))):
            flags = {flag for row in found[name] for flag in row["flags"]} - marked - everywhere
            lines.append(Line(f"{data.category(name)} ({sizes[name]}{mark_of(flags)})", split, name))
    return lines
