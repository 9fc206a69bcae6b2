"""The figure of how answers refuse, or what answers do: the kinds that a judge tells, a panel for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import pandas as pd
from pydantic import Field

from refusal_eval.config.figure_entry import SPLITS, Ordered, able_judges
from refusal_eval.config.problems import Mistake
from refusal_eval.config.shapes import Slug
from refusal_eval.config.study_view import StudyView
from refusal_eval.core.states import COMPLIANCE, LABELS, PARTIAL, REFUSAL
from refusal_eval.plots.base import (
    isolate,
    name_rows,
    new_figure,
    numbers_inside,
    settle,
    widest,
    wrap_to,
)
from refusal_eval.plots.captions import everywhere_words, label_with_protocol, short_words, study_words, within
from refusal_eval.plots.curves import percent_scale
from refusal_eval.plots.figure_data import Caption, Drawn, FigureData, fits
from refusal_eval.plots.shared_marks import shared_flags
from refusal_eval.plots.style import BLUE, FAINT, GREY, INK, LINE_HEIGHT, PALE, VERMILLION
from refusal_eval.report.paper.display import mark_of, pieces
from refusal_eval.report.paper.table_notes import k_text, kinds_agreement
from refusal_eval.stats.estimates.flags import derived_flags

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The order of the kinds of `judges.reasoned`; kinds of other judges follow by name. Copied, as that module would make
# every edit of a judge redraw the figures; a test holds the two together.
KINDS = (
    "direct", "alternative", "distortion", "softening", "feigned_ignorance", "vagueness", "redirection",
    "hypothetical", "lecture", "official_line", "invalidation", "nonsense",
)  # fmt: skip
NO_KIND = "not given"
_REST = (NO_KIND, COMPLIANCE)  # never have a panel of their own
_COUNTED = {"strict": (REFUSAL,), "broad": (REFUSAL, PARTIAL), "all": LABELS}

_MOST_KINDS = 4  # that have a panel each, those of most answers; the others share one
_OTHER = "other"
_COLOURS = (BLUE, VERMILLION, "#009E73", "#CC79A7")  # of Okabe & Ito
_BAR = 7.0  # points, the height of a bar
_ROW = 11.0
_NARROW = 45.0  # points, of a panel whose scale has no room for a number in the middle
_GROUP = "All splits"


class RefusalKindsFigure(Ordered):
    """How answers refuse: shares of the kinds of refusal that the judge tells; of a judge with `kinds` of its
    own, those of all answers."""

    report: ClassVar[tuple[str, str]] = ("Refusal rates", "Kinds of refusal")
    needs: ClassVar[tuple[str, ...]] = ("estimates", "scores", "cards")

    kind: Literal["refusal_kinds"]
    splits: list[Slug] | None = SPLITS
    reading: Literal["strict", "broad"] = Field(
        "broad", description="`strict` counts refusals, `broad` partial refusals as well."
    )
    among: Literal["refusals", "answers"] | None = Field(
        None,
        description="Shares among the answers that refuse in this reading, or among all that the judge labelled. "
        "Default: `answers` for a judge with `kinds` of its own.",
    )
    by: Literal["split", "all"] | None = Field(
        None, description="A bar for each model and `split`, or for each model over `all`. Default: what fits a page."
    )

    @classmethod
    def unasked(cls, study: StudyView) -> list[Self]:
        always = study.judges[study.primary_judge].tells_kinds(study) == "always"
        return [cls(name="refusal_kinds", kind="refusal_kinds")] if always else []

    def mistakes(self, study: StudyView) -> Iterator[Mistake]:
        """Yield a mistake if the judge cannot give kinds."""
        name = self.judge or study.primary_judge
        judge = study.judges.get(name)
        if judge is not None and judge.tells_kinds(study) == "never":
            form = ", form published" if getattr(judge, "form", None) == "published" else ""
            message = f"judge `{name}` (kind {judge.kind}{form}) does not tell kinds of refusal"
            others = [other for other, entry in study.judges.items() if entry and entry.tells_kinds(study) != "never"]
            yield ("judge",) if self.judge else ("kind",), message + able_judges(others)

    def draw(self, data: FigureData) -> Drawn:
        """Return shares of the kinds among the counted answers of each model, on each split or on all together.

        Only answers to scored turns count, under the figure's reading.

        Raises:
            UserError: where no page is high enough.
        """
        own = list(dict.fromkeys(kind for cell in data.units.values() for kind, _ in cell.facts.get("kinds") or ()))
        counted = self.reading if (self.among or ("answers" if own else "refusals")) == "refusals" else "all"
        order = [*own, *(kind for kind in KINDS if kind not in own)]
        for by, wide in [(by, wide) for by in ([self.by] if self.by else ["split", "all"]) for wide in (False, True)]:
            bars = _bars(_COUNTED[counted], by, data)
            found = {kind for bar in bars for kind in bar.kinds}
            last = [kind for kind in (COMPLIANCE, NO_KIND) if kind in found and kind not in own]
            kinds = [*(kind for kind in order if kind in found), *sorted(found - {*order, *last}), *last]
            width = data.points(wide)
            fig = _draw(bars, kinds, data, width)
            if fits(fig) and (wide or _named(_panels(bars, kinds), width)):
                return Drawn(
                    fig, _frame(bars, kinds, data.judge, counted), self._caption(bars, kinds, by, counted, data)
                )
        raise data.too_high(fig, "name fewer under `models`" + (" or `splits`" if by == "split" else ""))

    def _caption(self, bars: Sequence[Bar], kinds: Sequence[str], by: str, counted: str, data: FigureData) -> Caption:
        called = {"strict": "calls refusals", "broad": "calls refusals and partial refusals", "all": "labels"}[counted]
        words = [
            f"Shares among the answers that the judge {called}; n: their number, of K = {k_text(data.scores)} "
            f"answers per prompt. The {_MOST_KINDS} kinds of most answers have a panel each, all others the grey one. "
            "No intervals: answers to one prompt are not independent.",
        ]
        if by == "all" and len(data.shown.splits) > 1:
            words.append(
                f"Over all answers of {len(data.shown.splits)} splits, so that a larger split counts for more."
            )
        if not kinds:
            labelled = any(label for cell in data.verdicts.values() for label, _ in cell)
            words.append("The judge calls no answer a refusal." if labelled else "No answer has a verdict.")
        if counted == "all":
            agreement = kinds_agreement(data.judge, data.cards, data.labels.golds)
            words += [f"The judge's kinds, {text}." for text in agreement]
        if any(score["states"]["blocked"] for score in data.scores):
            words.append("Answers that a provider blocked, which count as refusals in rates, are not shown.")
        words += study_words(data, flags=derived_flags(score["flags"] for score in data.scores))
        words += everywhere_words(shared_flags(bar.flags for bar in bars))
        title = self.title or ("What answers do." if counted == "all" else "How answers refuse.")
        flags = derived_flags(score["flags"] for score in data.scores)
        everywhere = shared_flags(bar.flags for bar in bars)
        what = f"Shares (%) of the answers (n) that the judge {called}"
        needed = short_words(data, what, flags=flags, everywhere=everywhere)
        further = ["Grey: all other kinds."] if any(name == _OTHER for name, *_ in _panels(bars, kinds)) else []
        return Caption(title, words, within(title, needed, further))


class Bar(NamedTuple):
    """One bar: its group (a split, or None for all), model, number of answers of each kind, number of all that the
    judge labelled, and flags of its cells."""

    split: str | None
    model: str
    kinds: Mapping[str, int]
    labelled: int
    flags: Sequence[str]


def _bars(labels: Collection[str], by: str, data: FigureData) -> list[Bar]:
    """Count the answers of each kind that have one of these labels; without one they are compliances or `NO_KIND`."""
    bars, splits = [], data.shown.splits
    for name, group in [(split, [split]) for split in splits] if by == "split" else [(None, splits)]:
        for model in data.models_in_order():
            kinds, labelled = Counter[str](), 0
            for split in group:
                for (label, kind), n in data.verdicts.get((model, split), {}).items():
                    labelled += n if label else 0
                    if label in labels and n:
                        kinds[kind or (COMPLIANCE if label == COMPLIANCE else NO_KIND)] += n
            own = (score["flags"] for score in data.scores if score["model"] == model and score["split"] in group)
            bars.append(Bar(name, model, kinds, labelled, derived_flags(own)))
    return bars


def _panels(bars: Sequence[Bar], kinds: Sequence[str]) -> list[tuple[str, str, Sequence[str]]]:
    """Return name, colour and kinds of each panel: the kinds of most answers, the largest first, then all others.

    Without any kind one panel, for what rows say then.
    """
    totals = {kind: sum(bar.kinds.get(kind, 0) for bar in bars) for kind in kinds}
    named = [kind for kind in sorted(kinds, key=lambda kind: (-totals[kind], kinds.index(kind))) if kind not in _REST]
    largest = named[:_MOST_KINDS]
    found: list[tuple[str, str, Sequence[str]]] = [
        (kind.replace("_", " "), colour, [kind]) for kind, colour in zip(largest, _COLOURS, strict=False)
    ]
    if COMPLIANCE in kinds:
        found.append((COMPLIANCE, INK, [COMPLIANCE]))
    others = [kind for kind in kinds if kind not in largest and kind != COMPLIANCE]
    name = others[0].replace("_", " ") if len(others) == 1 else _OTHER
    return ([*found, (name, GREY, others)] if others else found) or [("", GREY, [])]


def _room(panels: Sequence[Any], width: float) -> float:
    """Return the points that the title of a panel has in a figure of that width."""
    return (1 - 0.34) * width / len(panels) - 8


def _named(panels: Sequence[tuple[str, str, Sequence[str]]], width: float) -> bool:
    """Tell whether every word of the titles has room."""
    return widest([piece for name, *_ in panels for piece in pieces(name)]) <= _room(panels, width)


def _draw(bars: Sequence[Bar], kinds: Sequence[str], data: FigureData, width: float) -> Figure:
    """Draw a panel for each kind, with a row for each bar, and one for the name of each group above its bars."""
    rows: list[tuple[list[str], Bar | None]] = []
    for bar in bars:
        head = data.labels.split(bar.split) if bar.split else _GROUP
        if not rows or rows[-1][1] is None or rows[-1][1].split != bar.split:
            rows.append((wrap_to(head, 0.34 * width), None))
        rows.append((wrap_to(data.labels.model(bar.model), 0.32 * width), bar))
    heights = [max(_ROW, len(lines) * LINE_HEIGHT + 2) for lines, _ in rows]
    found = _panels(bars, kinds)
    fig = new_figure(width, [sum(heights)])
    axes = list(fig.subplots(1, len(found), squeeze=False).flat)
    shares = {
        (i, panel): 100 * sum(bar.kinds.get(kind, 0) for kind in of) / total
        for i, (_, bar) in enumerate(rows)
        if bar is not None and (total := sum(bar.kinds.values()))
        for panel, (_, _, of) in enumerate(found)
    }
    ticks = percent_scale(max(shares.values(), default=0.0) / 100)
    everywhere = shared_flags(bar.flags for bar in bars)
    for panel, (ax, (name, colour, _)) in enumerate(zip(axes, found, strict=True)):
        own = ["\n".join(lines) if panel == 0 else "" for lines, _ in rows]
        middles = name_rows(ax, heights, own)
        for i, (middle, (_, of_row)) in enumerate(zip(middles, rows, strict=True)):
            if of_row is None:
                ax.axhspan(middle - heights[i] / 2, middle + heights[i] / 2, color=PALE, linewidth=0, zorder=0)
            elif (i, panel) in shares:
                ax.barh(middle, shares[i, panel], _BAR, color=colour, linewidth=0, zorder=2)
            elif panel == 0:
                text = " none labelled a refusal" if of_row.labelled else " no verdict"
                ax.text(0, middle, text, va="center_baseline", in_layout=False)
        for tick in ticks[1:]:
            ax.axvline(tick, color=FAINT, linewidth=0.5, zorder=1)
        ax.set_xlim(ticks[0], ticks[-1])
        half = f"{ticks[1]:g}" if _room(found, width) > _NARROW else ""
        ax.set_xticks(ticks, [f"{ticks[0]:g}", half, f"{ticks[2]:g}"])
        numbers_inside(ax)
        ax.set_title("\n".join(wrap_to(isolate(name), max(_room(found, width), 20))), loc="left")
    sizes = ["n" if bar is None else str(sum(bar.kinds.values())) + _marks(bar, everywhere) for _, bar in rows]
    right = axes[-1].secondary_yaxis("right")
    right.set_yticks(middles, sizes)
    right.tick_params(length=0)
    right.spines["right"].set_visible(False)
    fig.supxlabel(label_with_protocol("Share of answers (%)", data.scores))
    return settle(fig, axes[0], [sum(heights)])


def _marks(bar: Bar, everywhere: Collection[str]) -> str:
    return mark_of(set(bar.flags) - set(everywhere))


def _frame(bars: Sequence[Bar], kinds: Sequence[str], judge: str, reading: str) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for bar in sorted(bars, key=lambda bar: (bar.model, bar.split or "")):
        total = sum(bar.kinds.values())
        for kind in kinds:
            n = bar.kinds.get(kind, 0)
            names = {"judge": judge, "model": bar.model, "split": bar.split, "reading": reading, "kind": kind}
            rows.append(names | {"n_answers": n, "share": n / total if total else None})
    columns = ["judge", "model", "split", "reading", "kind", "n_answers", "share"]
    return pd.DataFrame(rows, columns=columns, dtype=object)
