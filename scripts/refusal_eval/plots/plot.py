"""What is asked of one figure, and what drawing it gives."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from refusal_eval.core.errors import UserError
from refusal_eval.plots.style import CM, COLUMN_WIDTH, PAGE_HEIGHT, PAGE_WIDTH
from refusal_eval.report.paper.display import Labels, Score, clean, headline


@dataclasses.dataclass(frozen=True)
class Plot:
    """One figure of a study, as the workflow asks for it: every name and default filled in.

    Attributes:
        name: name of its files.
        kind: which figure it is.
        models: models, in their order.
        splits: splits, in their order.
        judges: judges, in their order; of most kinds just one.
        gold: gold sets, in their order.
        labels: what readers see instead of names.
        categories: what they see instead of names of categories.
        options: what only this kind has: `reading`, `order`, `by`, `most`, `measure`, `split`.
        title: first sentence of the caption, None for that of the kind.
        width: `column`, `page`, or None for what the figure needs.
    """

    name: str
    kind: str
    models: Sequence[str] = ()
    splits: Sequence[str] = ()
    judges: Sequence[str] = ()
    gold: Sequence[str] = ()
    labels: Labels = dataclasses.field(default_factory=Labels)
    categories: Mapping[str, str] = dataclasses.field(default_factory=dict)
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    title: str | None = None
    width: str | None = None

    @property
    def judge(self) -> str:
        """The judge of a figure that has one."""
        return self.judges[0]

    @property
    def reading(self) -> str | None:
        """The reading that the figure asks for, None for the headline of each split."""
        return self.options.get("reading")

    def category(self, name: str) -> str:
        """Label of a category."""
        return clean(self.categories.get(name, name.replace("_", " ")))

    def points(self, wide: bool) -> float:
        """Width in points; `wide` says what the figure needs where nothing is asked."""
        asked = {"column": COLUMN_WIDTH, "page": PAGE_WIDTH}
        return asked[self.width] if self.width else asked["page" if wide else "column"]

    def fits(self, height: float) -> bool:
        """Whether a height in points is one that a page has."""
        return height <= PAGE_HEIGHT

    def too_high(self, height: float, advice: str) -> UserError:
        """The error of a figure that no page has room for."""
        centimetres, most = height / CM, PAGE_HEIGHT / CM
        return UserError(
            f"figure `{self.name}` would be {centimetres:.0f} cm high, and a page has {most:.0f} cm: {advice}"
        )


@dataclasses.dataclass(frozen=True)
class Caption:
    """The words below a figure: a title, then sentences; unescaped text."""

    title: str
    sentences: Sequence[str]


@dataclasses.dataclass(frozen=True)
class Drawn:
    """A figure, the numbers in it (a row for each mark), and its caption."""

    figure: Figure
    frame: pd.DataFrame
    caption: Caption


def fitting(draw: Callable[[float], Figure], wide: bool, plot: Plot) -> Figure:
    """Return a figure drawn at its width in points; at that of a page where a narrow one is too high and none is asked.

    Args:
        draw: draws the figure at a width.
        wide: whether the figure needs a page's width anyway.
        plot: what is asked.
    """
    fig = draw(plot.points(wide))
    if not plot.fits(72 * fig.get_figheight()) and plot.width is None and not wide:
        return draw(PAGE_WIDTH)
    return fig


def plot_of(entry: Mapping[str, Any], labels: Mapping[str, Mapping[str, str]]) -> Plot:
    """Return what the workflow's params ask for.

    Args:
        entry: the figure, as `workflow.figures.Figures.entries` writes it.
        labels: the study's labels by section: `models`, `splits`, `judges`, `golds`.
    """
    own = entry["labels"]
    of_gold = {**labels["golds"], **own["gold"]}
    sections = {name: {**labels[name], **own[name]} for name in ("models", "splits", "judges")}
    names = ("name", "kind", "models", "splits", "judges", "gold", "title", "width", "options")
    shown = Labels(**sections, golds=of_gold)
    return Plot(**{name: entry[name] for name in names}, labels=shown, categories=own["categories"])


def chosen_scores(scores: Sequence[Score], plot: Plot) -> list[Score]:
    """Return the scores that a figure shows, with the reading it asks for as their headline."""
    kept = [
        score
        for score in scores
        if score["judge"] == plot.judge and score["model"] in plot.models and score["split"] in plot.splits
    ]
    return [{**score, "headline": plot.reading} for score in kept] if plot.reading else kept


def models_in_order(scores: Sequence[Score], plot: Plot) -> list[str]:
    """Return the models in the order that a figure asks for; a model without any rate comes last."""
    order = plot.options.get("order", "listed")
    if order == "name":
        return sorted(plot.models, key=lambda name: (plot.labels.model(name).casefold(), name))
    if order != "rate":
        return list(plot.models)
    means = {}
    for model in plot.models:
        rates = [headline(score)["rate"] for score in scores if score["model"] == model]
        known = [rate for rate in rates if rate is not None]
        means[model] = sum(known) / len(known) if known else -1.0
    return sorted(plot.models, key=lambda name: (-means[name], name))
