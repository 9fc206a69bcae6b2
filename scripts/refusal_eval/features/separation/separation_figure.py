"""The figure of separation: how far apart two groups of prompts lie in the activations of models, by layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import pandas as pd
from pydantic import Field

from refusal_eval.config.figure_entry import MOST_CURVES, Figure, Shown
from refusal_eval.config.problems import Mistake
from refusal_eval.config.shapes import Slug
from refusal_eval.config.study_view import StudyView
from refusal_eval.core.hints import nearest
from refusal_eval.features.separation.separation_entry import Separation
from refusal_eval.plots.base import LOOKS, Look, legend, panels, settle
from refusal_eval.plots.figure_data import Caption, Drawn, FigureData, fits
from refusal_eval.plots.style import GREY
from refusal_eval.report.paper.display import join_texts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

# Of each index its name, and whether groups further apart have more or less of it.
INDICES = {
    "auc": ("Cross-fitted AUC", "higher"),
    "silhouette": ("Silhouette", "higher"),
    "davies_bouldin": ("Davies\u2013Bouldin", "lower"),
    "calinski_harabasz": ("Calinski\u2013Harabasz", "higher"),
    "xie_beni": ("Xie\u2013Beni", "lower"),
    "dunn": ("Dunn", "higher"),
}
_HIGH, _NARROWEST = 90.0, 88.0  # points, of a panel
_FOR_PANEL = 34.0  # points left of a panel, whose scale is its own


class SeparationFigure(Figure):
    """How far apart two groups of prompts lie in the activations of models, layer by layer: a panel for each index."""

    report: ClassVar[tuple[str, str]] = ("Steering", "Separation by layer")
    needs: ClassVar[tuple[str, ...]] = ("separation",)
    wildcards: ClassVar[tuple[str, ...]] = ("separation",)
    keys: ClassVar[tuple[str, ...]] = ("separation",)

    kind: Literal["separation"]
    separation: Slug = Field(description="The study's separation that it shows, by its name.")
    models: list[Slug] | None = Field(
        None, min_length=1, max_length=MOST_CURVES, description="Models that it shows, in this order. Default: all."
    )
    indices: list[Literal["auc", "silhouette", "davies_bouldin", "calinski_harabasz", "xie_beni", "dunn"]] = Field(
        ["auc", "silhouette", "davies_bouldin"], min_length=1, description="Indices, a panel for each."
    )

    @classmethod
    def unasked(cls, study: StudyView) -> list[Self]:
        """Return one for each separation of a study, unless its models could not be told apart."""
        drawable = [name for name, models in separated_models(study).items() if len(models) <= MOST_CURVES]
        return [cls(name=f"separation_{name}", kind="separation", separation=name) for name in drawable]

    def shown(self, study: StudyView) -> Shown:
        """Return what it shows."""
        models = self.models or separated_models(study).get(self.separation, [])
        return Shown([], list(models), further={"separation": [self.separation]})

    def mistakes(self, study: StudyView) -> Iterator[Mistake]:
        """Yield a separation that the study has not, and models that it is not of."""
        known = separated_models(study)
        if self.separation not in known:
            message = f"`{self.separation}` is not in `separation` of the study{nearest(self.separation, known)}"
            yield ("separation",), message
            return
        for index, name in enumerate(self.models or ()):
            if name not in known[self.separation]:
                yield ("models", index), f"`{name}` is not one of the models of separation `{self.separation}`"
        if self.models is None and len(known[self.separation]) > MOST_CURVES:
            yield ("kind",), f"a panel shows at most {MOST_CURVES} models: name fewer under `models`"

    def draw(self, data: FigureData) -> Drawn:
        """Draw a panel for each index, with the curve of each model, its interval and its null.

        Raises:
            UserError: if the models have none of the indices, or no page is high enough.
        """
        found = data.rows_of_csv("separation")
        found = found[found["model"].isin(data.shown.models) & found["index"].isin(self.indices)]
        if found.empty:
            raise data.undrawable(": there are no indices of these models to draw")
        fig = _draw(found, self.indices, data)
        if not fits(fig):
            raise data.too_high(fig, "name fewer under `indices`")
        counts = found[["n_positive", "n_negative"]].drop_duplicates().to_numpy().tolist()
        sizes = join_texts([f"{positive} and {negative}" for positive, negative in counts])
        ways = join_texts([f"{name} {way}" for name, way in (INDICES[index] for index in self.indices)])
        words = [
            f"Of groups further apart: {ways}.",
            f"Groups of {sizes} prompts, in the residual stream after each decoder layer; the first one is 0.",
            f"Bands: 95 % bootstrap intervals over clusters{' (none of Dunn)' if 'dunn' in self.indices else ''}.",
            "Dotted: the median of the index where labels are permuted, of whole clusters or, where a cluster has "
            "both groups, within it. Values of models with different widths are not comparable.",
        ]
        title = self.title or "Separation by layer."
        short = [f"How far groups of {sizes} prompts lie apart in the residual stream after each decoder layer."]
        short.append("Bands: 95 % CI over clusters; dotted: the median with permuted labels.")
        return Drawn(fig, found.sort_values(["index", "model", "layer"]), Caption(title, words, short))


def separated_models(study: StudyView) -> dict[str, list[str]]:
    """Return the models of each separation of a study, by its name."""
    return {entry.name: entry.models for entry in study.items("separation", Separation).values()}


def _draw(found: pd.DataFrame, indices: Sequence[str], data: FigureData) -> Drawing:
    from matplotlib.patches import Patch

    models = data.shown.models
    fig, axes, columns = panels(
        [f"{name} ({way} is better)" for name, way in (INDICES[index] for index in indices)],
        data.points(len(indices) > 1),
        _HIGH,
        _NARROWEST,
        _FOR_PANEL * min(len(indices), 3),
    )
    curves = [look.sample(line=True) for look in LOOKS[: len(models)]] if len(models) > 1 else []
    names = [data.labels.model(name) for name in models] if len(models) > 1 else []
    if found["low"].notna().any():
        curves, names = [*curves, Patch(facecolor=GREY, alpha=0.3, linewidth=0)], [*names, "95 % interval"]
    if curves:
        legend(fig, curves, names)
    for ax, index in zip(axes, indices, strict=True):
        for model, look in zip(models, LOOKS, strict=False):
            rows = found[(found["index"] == index) & (found["model"] == model)].sort_values("layer")
            _curve(ax, rows, look)
        _name_null(ax, found[found["index"] == index])
        ax.tick_params(labelleft=True)
        ax.margins(x=0.02)
        for axis, (low, high) in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
            axis.set_ticks([tick for tick in axis.get_ticklocs() if low <= tick <= high])
    fig.supxlabel("Decoder layer")
    return settle(fig, axes[0], [_HIGH] * -(-len(axes) // columns))


def _name_null(ax: Axes, rows: pd.DataFrame) -> None:
    """Name the lines of permuted labels where they end, on the side away from the curves."""
    last = rows[rows["layer"] == rows["layer"].max()]
    nulls = last["null"].dropna()
    if nulls.empty:
        return
    below = nulls.mean() < last["value"].mean()  # the curves are above
    place = (rows["layer"].max(), nulls.max() if below else nulls.min())
    style: dict[str, Any] = {"textcoords": "offset points", "ha": "right", "in_layout": False, "color": GREY}
    ax.annotate("labels permuted", place, (0, 2 if below else -2), va="bottom" if below else "top", **style)


def _curve(ax: Axes, rows: pd.DataFrame, look: Look) -> None:
    colour = look.colour
    ax.plot(rows["layer"], rows["null"], color=colour, linewidth=0.7, linestyle=(0, (1, 1.5)), zorder=1)
    if rows["low"].notna().any():
        ax.fill_between(rows["layer"], rows["low"], rows["high"], color=colour, alpha=0.15, linewidth=0, zorder=1)
    style = {**look.line(), **look.point(), "markersize": 2.2}
    ax.plot(rows["layer"], rows["value"], **style, zorder=2)
