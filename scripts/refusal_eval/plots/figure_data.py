"""What a figure is drawn from, read from files when it first asks, and what drawing it gives."""

from __future__ import annotations

import bisect
import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from refusal_eval.config.figure_entry import Figure, Shown
from refusal_eval.config.paper_format import DEFAULT, PaperFormat, width_in
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json
from refusal_eval.plots.base import EDGE, new_figure, points_high, put_lines, settle, wrap_to
from refusal_eval.plots.style import CM, COLUMN_WIDTH, LINE_HEIGHT, PAGE_HEIGHT
from refusal_eval.report.paper.display import Labels, Score, by_cell, clean, headline, order_names
from refusal_eval.report.results.cells import cell_scores
from refusal_eval.report.results.results_files import estimates_in
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.units import Units, read_units

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

ModelSplit = tuple[str, str]
ResultRow = Mapping[str, Any]  # of the results table (`estimate.Estimate`)


@dataclass(frozen=True)
class Caption:
    """The words below a figure: a title, then sentences; unescaped text.

    `short` are the sentences of the caption itself; without any, all sentences are.
    """

    title: str
    sentences: Sequence[str]
    short: Sequence[str] = ()

    @property
    def brief(self) -> Caption:
        """The caption itself, where what else there is to say stands elsewhere."""
        return Caption(self.title, self.short or self.sentences)


@dataclass(frozen=True)
class Drawn:
    """A figure, the numbers in it (a row for each mark), and its caption."""

    figure: Drawing
    frame: pd.DataFrame
    caption: Caption


@dataclass
class FigureData:
    """What one figure is drawn from."""

    figure: Figure  # its entry
    shown: Shown  # judges, models, splits and gold, in their order
    # of the study's `models`, `splits`, `judges` and `golds`, under which the entry's own are laid
    study_labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    scoring: Mapping[str, float] = field(default_factory=dict)  # `tau`, `band` and `level` of the study
    splits: Sequence[Mapping[str, Any]] = ()  # of each what `cells.cell_scores` needs, and its `source`
    protocol: str = "default"
    paper: PaperFormat = DEFAULT
    files: Mapping[str, Sequence[str]] = field(default_factory=dict)  # paths by noun, as `Figure.needs` names them

    @functools.cached_property
    def labels(self) -> Labels:
        """What readers see instead of names."""
        own = self.figure.labels
        sections = {"models": own.models, "splits": own.splits, "judges": own.judges, "golds": own.gold}
        return Labels(**{name: {**self.study_labels.get(name, {}), **labels} for name, labels in sections.items()})

    def category(self, name: str) -> str:
        return clean(self.figure.labels.categories.get(name, name.replace("_", " ")))

    @property
    def judge(self) -> str:
        """The only judge of a figure about one judge."""
        return self.shown.judges[0]

    # ---------------------------------------------------------------- what is read

    @functools.cached_property
    def scores(self) -> list[Score]:
        """The cells that it shows, with the reading it asks for as their headline, and the marks of that reading."""
        reading = getattr(self.figure, "reading", None)
        splits = [{**split, "reading": reading or split["reading"]} for split in self.splits]
        return cell_scores(self._results, {**self.scoring, "protocol": self.protocol, "splits": splits})

    @functools.cached_property
    def cards(self) -> list[Mapping[str, Any]]:
        return list(self._read("cards"))

    @functools.cached_property
    def estimates(self) -> list[ResultRow]:
        """The results table's rows on the figure's cells."""
        return [estimate.row() for estimate in self._results]

    @functools.cached_property
    def _results(self) -> list[Estimate]:
        return [row for row in self.rows_of("estimates") if row.split in self.shown.splits]

    def rows_of(self, *nouns: str) -> list[Estimate]:
        """Return the results table's rows in the files of these nouns."""
        return [row for noun in nouns for content in self._read(noun) for row in estimates_in(content)]

    def found(self, analysis: str) -> Mapping[str, Any]:
        """Return the result of an analysis."""
        return next(self._read(analysis))

    def rows_of_csv(self, noun: str) -> pd.DataFrame:
        """Return the rows of its CSV files of a noun."""
        # A model may be called `null` or `1`: only empty fields are no value, and names are no numbers.
        tables = [
            pd.read_csv(path, dtype={"model": str}, keep_default_na=False, na_values=[""])
            for path in self.files.get(noun, ())
        ]
        return pd.concat(tables, ignore_index=True)

    @functools.cached_property
    def votes(self) -> dict[ModelSplit, list[float]]:
        """c(x) of each scored turn that has one, by (model, split)."""
        return {cell: units["c"][~np.isnan(units["c"])].tolist() for cell, units in self.units.items()}

    @functools.cached_property
    def verdicts(self) -> dict[ModelSplit, Counter[tuple[str | None, str | None]]]:
        """How many answers have which label and kind of refusal, by (model, split); those to scored turns only."""
        found = {}
        for cell, units in self.units.items():
            assert units.samples is not None
            read = units.samples.loc[units.samples["verdict"].notna(), ["label", "kind"]].astype(object)
            found[cell] = Counter(read.where(read.notna(), None).itertuples(index=False, name=None))
        return found

    @functools.cached_property
    def units(self) -> dict[ModelSplit, Units]:
        """The scored cells, by (model, split)."""
        cells = (read_units(path) for path in self.files.get("scores", ()))
        return {(units.facts["model"], units.facts["split"]): units for units in cells}

    def _read(self, noun: str) -> Iterator[Mapping[str, Any]]:
        return (read_json(path) for path in self.files.get(noun, ()))

    # ---------------------------------------------------------------- what the study asks for

    def cells(self) -> tuple[dict[ModelSplit, Score], list[str], list[str]]:
        """Return the scores by (model, split), and the models and splits that have any, in their order.

        Raises:
            ValueError: without scores.
        """
        found = {(model, split): score for (_, model, split), score in by_cell(self.scores).items()}
        if not found:
            raise ValueError("a figure needs scores of exactly one judge")
        models, splits = ({cell[i] for cell in found} for i in (0, 1))
        return found, order_names(models, self.models_in_order()), order_names(splits, self.shown.splits)

    def by_expectation(self, splits: Sequence[str]) -> list[str]:
        """Return splits grouped by what is expected on them, otherwise in their order."""
        expected = dict(zip(splits, self.expectations(splits), strict=True))
        order = ("refuse", "varies", "comply")
        return sorted(
            splits, key=lambda split: order.index(expected[split]) if expected[split] in order else len(order)
        )

    def expectations(self, splits: Sequence[str]) -> list[str]:
        """Return what is expected on each of these splits."""
        found = {score["split"]: score["expectation"] for score in self.scores}
        return [found.get(split, "") for split in splits]

    def models_in_order(self) -> list[str]:
        """Return the models in the order that the entry asks for; a model without any rate comes last."""
        order, models = getattr(self.figure, "order", "listed"), self.shown.models
        if order == "name":
            return sorted(models, key=lambda name: (self.labels.model(name).casefold(), name))
        if order != "rate":
            return list(models)
        means = {}
        for model in models:
            rates = [headline(score)["rate"] for score in self.scores if score["model"] == model]
            known = [rate for rate in rates if rate is not None]
            means[model] = sum(known) / len(known) if known else -1.0
        return sorted(models, key=lambda name: (-means[name], name))

    def points(self, wide: bool) -> float:
        """Return the width in points; `wide` is the default for a figure without a width in the study."""
        return CM * width_in(self.paper, self.figure.width or ("page" if wide else "column"))

    def spans(self, drawing: Drawing) -> bool:
        """Tell whether a drawing is wider than a column of a paper with two."""
        return self.paper.two_columns and 72 * drawing.get_figwidth() > CM * self.paper.column + 0.5

    def fitting(self, draw: Callable[[float], Drawing], wide: bool) -> Drawing:
        """Return a drawing at its width, at that of a page where a narrow one is too high and no width is asked for.

        Args:
            draw: draws at a width in points.
            wide: whether the figure needs a page's width anyway.
        """
        drawing = draw(self.points(wide))
        if not fits(drawing) and self.figure.width is None and not wide:
            return draw(self.points(wide=True))
        return drawing

    def undrawable(self, reason: str) -> UserError:
        """Return the error for a figure that cannot be drawn."""
        return UserError(f"figure `{self.figure.name}`{reason}")

    def too_high(self, drawing: Drawing, advice: str) -> UserError:
        """Return the error of a figure that no page has room for."""
        centimetres, most = points_high(drawing) / CM, PAGE_HEIGHT / CM
        return self.undrawable(f" would be {centimetres:.0f} cm high, and a page has {most:.0f} cm: {advice}")


def fits(drawing: Drawing) -> bool:
    return points_high(drawing) <= PAGE_HEIGHT + 0.5


def most_that_fits(draw: Callable[[int], Drawing], most: int) -> tuple[int, Drawing]:
    """Return the greatest number up to `most` whose drawing fits a page, and that drawing; 1 where none does."""
    cached = functools.cache(draw)
    if not fits(cached(most)):
        most = max(1, bisect.bisect_left(range(1, most), True, key=lambda number: not fits(cached(number))))
    return most, cached(most)


def not_drawn(reason: str) -> Drawn:
    """Return a page that says why there is no figure, with an empty table."""
    lines = wrap_to(f"Not drawn: {reason}", COLUMN_WIDTH - 2 * EDGE)
    heights = [len(lines) * LINE_HEIGHT]
    fig = new_figure(COLUMN_WIDTH, heights)
    ax = fig.subplots()
    put_lines(ax, lines)
    settle(fig, ax, heights)
    frame = pd.DataFrame({"not_drawn": [reason]}, dtype=object)
    return Drawn(fig, frame, Caption("Not drawn.", [f"{reason}."]))
