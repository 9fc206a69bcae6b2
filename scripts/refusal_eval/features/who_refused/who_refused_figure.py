"""The figure of who refused: a bar for each model and split, in parts that add up to the refusal rate."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import pandas as pd

from refusal_eval.config.figure_entry import SPLITS, Ordered
from refusal_eval.config.problems import Mistake
from refusal_eval.config.shapes import Slug
from refusal_eval.config.study_view import StudyView
from refusal_eval.features.who_refused.refusers import REFUSED_BY, REFUSERS
from refusal_eval.plots.base import legend, name_rows, new_figure, numbers_inside, settle, wrap_to
from refusal_eval.plots.captions import everywhere_words, label_with_protocol, short_words, study_words, within
from refusal_eval.plots.curves import percent_scale
from refusal_eval.plots.figure_data import Caption, Drawn, FigureData, ResultRow, fits
from refusal_eval.plots.shared_marks import shared_flags
from refusal_eval.plots.style import BLUE, FAINT, GREY, INK, LINE_HEIGHT, PALE, VERMILLION
from refusal_eval.report.paper.display import mark_of, percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Colours of Okabe & Ito; those that look alike in grey differ by their hatching.
_LOOKS = {
    "model": (BLUE, ""),
    "declared": ("#56B4E9", ""),
    "classifier": (VERMILLION, ""),
    "policy": ("#E69F00", "////"),
    "filter_prompt": ("#009E73", ""),
    "filter_answer": ("#FFFFFF", "\\\\\\\\"),
    "filter": ("#009E73", "xxxx"),
    "gateway": ("#CC79A7", ""),
    "guardrail": ("#F0E442", "...."),
    "nobody": (GREY, ""),
    "earlier_turn": (FAINT, "////"),
}
_BAR = 7.0  # points, the height of a bar
_ROW = 11.0


class WhoRefusedFigure(Ordered):
    """Who refused: the model's text, its declared refusals, and who blocked prompt or answer, as parts of the refusal
    rate."""

    report: ClassVar[tuple[str, str]] = ("Refusal rates", "Who refused")
    needs: ClassVar[tuple[str, ...]] = ("who_refused", "estimates", "cards")

    kind: Literal["who_refused"]
    splits: list[Slug] | None = SPLITS

    @classmethod
    def unasked(cls, study: StudyView) -> list[Self]:
        """Return one of a study in which another party may block answers."""
        return [cls(name="who_refused", kind="who_refused")] if study.may_block else []

    def mistakes(self, study: StudyView) -> Iterator[Mistake]:
        """Yield that nobody could block anything in the study."""
        if not study.may_block:
            message = (
                "`who_refused` needs a model whose kind of engine says that it `may_block`, or recorded answers of "
                "which one was blocked, and the study has neither"
            )
            yield ("kind",), message

    def draw(self, data: FigureData) -> Drawn:
        """Return a bar for each model and split that has a rate, in parts by who refused.

        Raises:
            UserError: where no page is high enough.
        """
        bars = _bars(data)
        who = [name for name in REFUSERS if name == "model" or any(bar.shares.get(name) for bar in bars)]
        fig = data.fitting(lambda width: _draw(bars, who, data, width), wide=False)
        if not fits(fig):
            raise data.too_high(fig, "name fewer under `models` or `splits`")
        flags, everywhere = {flag for bar in bars for flag in bar.flags}, shared_flags(bar.flags for bar in bars)
        words = [
            "Share of the answers that a judge labelled or that were blocked: mean over prompts, in the headline "
            "reading of each split. The parts add up to the refusal rate as a user meets it, the number at the right.",
            "Model's text: refusals as the judge reads them; all other parts but the declared ones were blocked.",
            *study_words(data, flags=flags),
            *everywhere_words(everywhere),
        ]
        title = self.title or "Who refused."
        needed = short_words(data, "Refusals (% of the answers; sum at the right)", flags=flags, everywhere=everywhere)
        caption = Caption(title, words, within(title, needed, ["All parts but the model's were blocked."]))
        return Drawn(fig, _frame(bars, data.judge), caption)


class RefuserBar(NamedTuple):
    """One bar: its split and model, the share of each who refused, the refusal rate, and the flags of its cell."""

    split: str
    model: str
    shares: dict[str, float]
    rate: float | None
    flags: Sequence[str]


def _bars(data: FigureData) -> list[RefuserBar]:
    """Return the bars split by split."""
    cells: dict[tuple[str, str], list[ResultRow]] = {}
    for row in data.found("who_refused")["estimates"]:
        if row["estimand"] == REFUSED_BY and row["judge"] == data.judge:
            cells.setdefault((row["split"], row["model"]), []).append(row)
    rates = {(score["split"], score["model"]): score[score["headline"]]["rate"] for score in data.scores}
    bars = []
    for split in data.shown.splits:
        for model in data.models_in_order():
            own = cells.get((split, model), [])
            shares = {str(row["parameter"]): row["value"] for row in own if row["value"] is not None}
            flags = {flag for row in own for flag in row["flags"]}
            bars.append(RefuserBar(split, model, shares, rates.get((split, model)), sorted(flags)))
    return bars


def _draw(bars: Sequence[RefuserBar], who: Sequence[str], data: FigureData, width: float) -> Figure:
    """Draw a row for each bar, and one for the name of each split above its bars."""
    from matplotlib.patches import Patch

    rows: list[tuple[list[str], RefuserBar | None]] = []
    for bar in bars:
        if not rows or rows[-1][1] is None or rows[-1][1].split != bar.split:
            rows.append((wrap_to(data.labels.split(bar.split), 0.34 * width), None))
        rows.append((wrap_to(data.labels.model(bar.model), 0.32 * width), bar))
    heights = [max(_ROW, len(lines) * LINE_HEIGHT + 2) for lines, _ in rows]
    fig = new_figure(width, [sum(heights)])
    ax = fig.subplots()
    middles = name_rows(ax, heights, ["\n".join(lines) for lines, _ in rows])
    ticks = percent_scale(max((bar.rate or 0.0 for bar in bars), default=0.0))
    for middle, height, (_, of_row) in zip(middles, heights, rows, strict=True):
        if of_row is None:
            ax.axhspan(middle - height / 2, middle + height / 2, color=PALE, linewidth=0, zorder=0)
            continue
        if not of_row.shares:
            ax.text(0, middle, " no verdict", va="center_baseline", in_layout=False)
        left = 0.0
        for name in who:
            share = 100 * of_row.shares.get(name, 0.0)
            if share:
                ax.barh(middle, share, _BAR, left=left, **_look(name), zorder=2)
            left += share
    for tick in ticks[1:]:
        ax.axvline(tick, color=FAINT, linewidth=0.5, zorder=1)
    ax.set_xlim(ticks[0], ticks[-1])
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    numbers_inside(ax)
    everywhere = shared_flags(bar.flags for bar in bars)
    right = ax.secondary_yaxis("right")
    right.set_yticks(middles, ["" if bar is None else percent(bar.rate) + _marks(bar, everywhere) for _, bar in rows])
    right.tick_params(length=0)
    right.spines["right"].set_visible(False)
    ax.set_xlabel(label_with_protocol("Share of answers (%)", data.scores))
    legend(fig, [Patch(**_look(name)) for name in who], [REFUSERS[name] for name in who])
    return settle(fig, ax, [sum(heights)])


def _marks(bar: RefuserBar, everywhere: Collection[str]) -> str:
    return mark_of(set(bar.flags) - set(everywhere))


def _look(name: str) -> dict[str, Any]:
    colour, hatch = _LOOKS[name]
    return {"facecolor": colour, "hatch": hatch, "edgecolor": INK, "linewidth": 0.3}


def _frame(bars: Sequence[RefuserBar], judge: str) -> pd.DataFrame:
    rows = [
        {"judge": judge, "model": bar.model, "split": bar.split, "who": who, "share": bar.shares[who], "rate": bar.rate}
        for bar in sorted(bars, key=lambda bar: (bar.model, bar.split))
        for who in REFUSERS
        if who in bar.shares
    ]
    return pd.DataFrame(rows, columns=["judge", "model", "split", "who", "share", "rate"], dtype=object)
