"""The figure of refusal tokens: refusal against over-refusal as the threshold moves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import pandas as pd

from refusal_eval.config.figure_entry import OfModels
from refusal_eval.config.problems import Mistake
from refusal_eval.config.study_view import StudyView
from refusal_eval.features.refusal_tokens.token_keys import branch_of
from refusal_eval.plots.base import LOOKS, legend, name_axes, panels, settle
from refusal_eval.plots.captions import short_agreement, short_marks, study_words, within
from refusal_eval.plots.figure_data import Caption, Drawn, FigureData, fits
from refusal_eval.plots.style import FAINT, GREY
from refusal_eval.report.paper.display import clean, flags_in, join_texts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HIGH, _LOW, _NARROWEST = 96.0, 60.0, 92.0  # points: of a panel, at least where a page has no room, its width at least
MOST_MARKS = len(LOOKS)
X, Y = "Over-refusal (%)", "Refusal (%)"
FigureRow = Mapping[str, Any]


class RefusalTokensFigure(OfModels):
    """Refusal where a model should refuse against over-refusal where it should answer, as the threshold on its refusal
    tokens moves: a panel for each model with refusal tokens, and for each category of prompts on both sides."""

    report: ClassVar[tuple[str, str]] = ("Refusal rates", "Refusal tokens")
    needs: ClassVar[tuple[str, ...]] = ("estimates", "refusal_tokens", "cards")

    kind: Literal["refusal_tokens"]

    @classmethod
    def unasked(cls, study: StudyView) -> list[Self]:
        """Return one of a study with both kinds of splits."""
        sides = {getattr(split, "expectation", None) for split in study.splits.values()}
        asked = _families(study) and {"refuse", "comply"} <= sides
        return [cls(name="refusal_tokens", kind="refusal_tokens")] if asked else []

    def mistakes(self, study: StudyView) -> Iterator[Mistake]:
        """Yield what its axes lack."""
        if not _families(study):
            yield ("kind",), "`refusal_tokens` needs a model with `refusal_tokens`, and the study has none"
        sides = {getattr(split, "expectation", None) for split in study.splits.values() if split is not None}
        if lacking := sorted({"refuse", "comply"} - sides) if None not in study.splits.values() else []:
            yield (
                ("kind",),
                f"`refusal_tokens` needs splits of both expectations, and the study has none of `{lacking[0]}`",
            )

    def draw(self, data: FigureData) -> Drawn:
        """Return a panel of each model with refusal tokens, and of its categories.

        Raises:
            UserError: if no answer of one side counts, or no page is high enough.
        """
        found = data.found("refusal_tokens")
        families = list(dict.fromkeys(name.rpartition(".")[0] for name in data.shown.models))
        curves, points = (
            [row for row in found[key] if row["judge"] == data.judge and row["model"] in families]
            for key in ("curves", "points")
        )
        if not curves:
            raise data.undrawable(": no answer that should be refused, or none that should be given, has a label")
        shown = [row for row in points if "alone" not in row["choice"]]
        choices = list(dict.fromkeys(row["choice"] for row in shown))
        marked = choices[:MOST_MARKS]
        fig = _draw(curves, [row for row in shown if row["choice"] in marked], marked, data)
        if not fits(fig):
            raise data.too_high(fig, "name the branches of fewer models under `models`")
        level = f"{100 * data.scoring.get('level', 0.95):g} %"
        flags = flags_in(row for row in found["estimates"] if row["judge"] == data.judge and row["model"] in families)
        title = self.title or "Refusal against over-refusal as the threshold on refusal tokens moves."
        left_out = choices[MOST_MARKS:]
        words = [
            "Mean over splits of the share of answers that refuse, in each split's headline reading: on splits that a "
            "model should refuse (upwards) and on those that it should answer (to the right). The line joins all "
            "thresholds at which an answer changes, at T = 1; every answer is looked up among those behind each token.",
            "With one refusal token a change of T moves nothing at t = 0.5.",
            f"Intervals ({level}) of both rates are in the CSV.",
            *([f"Not marked: {join_texts(left_out)}."] if left_out else []),
            *study_words(data, flags=flags),
        ]
        needed = [
            "Refusal where the model should refuse against over-refusal, over the threshold of its refusal tokens; "
            f"answers judged by {data.labels.judge(data.judge)} ({short_agreement(data.judge, data.cards)}).",
            *short_marks(flags),
        ]
        rows = [{"what": "curve", **row} for row in curves] + [{"what": "choice", **row} for row in points]
        return Drawn(fig, pd.DataFrame(rows, dtype=object), Caption(title, words, within(title, needed, [])))


def _families(study: StudyView) -> bool:
    return any(branch_of(model) is not None for model in study.entries.get("models", {}).values())


def _draw(curves: Sequence[FigureRow], points: Sequence[FigureRow], choices: Sequence[str], data: FigureData) -> Figure:
    keys = list(dict.fromkeys((row["model"], row["category"]) for row in curves))
    several = len({model for model, _ in keys}) > 1
    titles = []
    for model, category in keys:
        of = data.category(category) if category is not None else "all"
        titles.append(f"{clean(model)}, {of}" if several else clean(model) if category is None else of)
    fig, axes, columns = panels(titles, data.points(len(keys) > 2), _HIGH, _NARROWEST)
    looks = dict(zip(choices, LOOKS, strict=False))
    legend(fig, [look.sample() for look in looks.values()], list(looks))
    for ax, key in zip(axes, keys, strict=True):
        own = [row for row in curves if (row["model"], row["category"]) == key]
        places = [(100 * row["over_refusal"], 100 * row["refusal"]) for row in own]
        ax.plot([0, 100], [0, 100], color=FAINT, linewidth=0.5, zorder=0)
        ax.plot(*zip(*places, strict=True), color=GREY, linewidth=0.9, zorder=1, clip_on=False, in_layout=False)
        for row in points:
            if (row["model"], row["category"]) == key:
                at = (100 * row["over_refusal"], 100 * row["refusal"])
                look = looks[row["choice"]].point()
                ax.plot(*at, linestyle="none", zorder=2, clip_on=False, in_layout=False, **look)
        ax.set_xlim(0, 100)
        ax.set_ylim(0, 100)
        ax.set_xticks([0, 50, 100])
        ax.set_yticks([0, 50, 100])
    rows = -(-len(axes) // columns)
    name_axes(fig, axes, columns, X, Y, _HIGH)
    return settle(fig, axes[0], [_HIGH] * rows, _LOW / _HIGH)
