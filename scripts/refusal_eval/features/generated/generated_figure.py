"""The figure of generated prompts: a bar for each step of a chain, what was lost in it and what is left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import pandas as pd
from pydantic import Field

from refusal_eval.config.figure_entry import Figure, Shown
from refusal_eval.config.problems import Mistake
from refusal_eval.config.shapes import Slug
from refusal_eval.config.study_view import StudyView
from refusal_eval.core.hints import nearest
from refusal_eval.features.generated.generated_keys import GeneratedPrompts
from refusal_eval.features.generated.generated_table import ChainRows
from refusal_eval.features.generated.measure_generated import ROWS_IN, ROWS_LOST, ROWS_OUT
from refusal_eval.plots.base import legend, name_rows, new_figure, numbers_inside, settle, wrap_to
from refusal_eval.plots.captions import within
from refusal_eval.plots.figure_data import Caption, Drawn, FigureData, fits
from refusal_eval.plots.style import BLUE, FAINT, GREY, INK, LINE_HEIGHT, VERMILLION
from refusal_eval.report.results.results_files import estimates_in

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

# Colours of Okabe & Ito for what was lost, the most frequent first; those that look alike in grey differ in hatching.
_LOST = (
    *((VERMILLION, ""), ("#E69F00", "////"), ("#56B4E9", "...."), (GREY, ""), ("#F0E442", "xxxx"), ("#CC79A7", "")),
    *(("#009E73", "\\\\\\\\"), ("#FFFFFF", "----"), (FAINT, ""), ("#FFFFFF", "||||"), ("#FFFFFF", "++++")),
)
_BAR = 8.0  # points, the height of a bar
_ROW = 13.0


class StepBar(NamedTuple):
    """A step: its split, the rows that are left, and those that were lost by what became of them."""

    split: str
    left: int
    lost: dict[str, int]


class GeneratedFigure(Figure):
    """The rows of each step from seeds to generated prompts: what was lost, by what became of it, and what is left."""

    report: ClassVar[tuple[str, str]] = ("Refusal rates", "Generated prompts")
    needs: ClassVar[tuple[str, ...]] = ("generated",)

    kind: Literal["generated"]
    split: Slug = Field(description="The last split of the chain that it shows; one under `generated` of the study.")

    @classmethod
    def unasked(cls, study: StudyView) -> list[Self]:
        """Return one for each chain of a study."""
        return [cls(name=f"generated_{name}", kind="generated", split=name) for name in _known(study)]

    def shown(self, study: StudyView) -> Shown:
        """Return what it shows."""
        one = _known(study).get(self.split)
        return Shown([study.primary_judge], [], [] if one is None else [one.seeds, one.split])

    def mistakes(self, study: StudyView) -> Iterator[Mistake]:
        """Yield a split that is not under `generated`."""
        if self.split not in (known := _known(study)):
            message = f"`{self.split}` is not in `generated` of the study{nearest(self.split, known)}"
            yield ("split",), message

    def draw(self, data: FigureData) -> Drawn:
        """Return a bar for each step.

        Raises:
            UserError: where no page is high enough.
        """
        content = data.found("generated")
        (chain,) = (one for one in content["chains"] if one["steps"][-1] == self.split)
        seeds, steps = chain["seeds"], chain["steps"]
        rows = ChainRows(estimates_in(content), chain, data.judge)
        states = rows.states()
        bars = [StepBar(seeds, rows.count(ROWS_OUT, seeds), {})]
        for step in steps:
            lost = {state: count for state in states if (count := rows.count(ROWS_LOST, step, state=state))}
            bars.append(StepBar(step, rows.count(ROWS_OUT, step), lost))
        drawing = data.fitting(lambda width: _draw(bars, states, content["words"], data, width), wide=False)
        if not fits(drawing):
            raise data.too_high(drawing, "show a chain of fewer steps")
        title = self.title or f"Rows from {data.labels.split(seeds)} to {data.labels.split(steps[-1])}, step by step."
        words = [
            "Each bar is as long as the rows that its step was to make: those that are left as prompts, and those that "
            "were lost by what became of them. At the right: prompts that are left of these rows.",
        ]
        frame = pd.DataFrame(
            [
                [bar.split, rows.count(ROWS_IN, bar.split), state, count]
                for bar in bars
                for state, count in [("left", bar.left), *bar.lost.items()]
            ],
            columns=["split", "rows_in", "state", "rows"],
            dtype=object,
        )
        return Drawn(drawing, frame, Caption(title, words, within(title, ["At the right: left of all rows."], [])))


def _known(study: StudyView) -> dict[str, GeneratedPrompts]:
    return {one.split: one for one in study.items("generated", GeneratedPrompts).values()}


def _draw(bars: Sequence[StepBar], states: Sequence[str], words: Any, data: FigureData, width: float) -> Drawing:
    from matplotlib.patches import Patch
    from matplotlib.ticker import MaxNLocator

    names = [wrap_to(data.labels.split(bar.split), 0.34 * width) for bar in bars]
    heights = [max(_ROW, len(lines) * LINE_HEIGHT + 2) for lines in names]
    fig = new_figure(width, [sum(heights)])
    ax = fig.subplots()
    middles = name_rows(ax, heights, ["\n".join(lines) for lines in names])
    looks = {state: _look(*_LOST[place % len(_LOST)]) for place, state in enumerate(states)}
    for middle, bar in zip(middles, bars, strict=True):
        ax.barh(middle, bar.left, _BAR, **_look(BLUE, ""), zorder=2)
        start = bar.left
        for state, count in bar.lost.items():
            ax.barh(middle, count, _BAR, left=start, **looks[state], zorder=2)
            start += count
    ax.set_xlim(0, max(bar.left + sum(bar.lost.values()) for bar in bars))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    ax.grid(axis="x", color=FAINT, linewidth=0.5, zorder=1)
    numbers_inside(ax)
    right = ax.secondary_yaxis("right")
    right.set_yticks(middles, [f"{bar.left}/{bar.left + sum(bar.lost.values())}" for bar in bars])
    right.tick_params(length=0)
    right.spines["right"].set_visible(False)
    ax.set_xlabel("Rows")
    marks = [Patch(**_look(BLUE, "")), *(Patch(**looks[state]) for state in states)]
    legend(fig, marks, ["left", *(words[state] for state in states)])
    return settle(fig, ax, [sum(heights)])


def _look(colour: str, hatch: str) -> dict[str, Any]:
    return {"facecolor": colour, "hatch": hatch, "edgecolor": INK, "linewidth": 0.3}
