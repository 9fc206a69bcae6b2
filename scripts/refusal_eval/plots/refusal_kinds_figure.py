"""The figure of how answers refuse, or what answers do: the kinds that a judge tells, stacked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import pandas as pd
from pydantic import Field

from refusal_eval.config.figure_entry import SPLITS, Ordered, able_judges
from refusal_eval.config.problems import Mistake
from refusal_eval.config.shapes import Slug
from refusal_eval.config.study_view import StudyView
from refusal_eval.core.states import COMPLIANCE, LABELS, PARTIAL, REFUSAL
from refusal_eval.plots.base import (
    ink_on,
    isolate,
    legend,
    name_rows,
    new_figure,
    settle,
    text_width,
    width_of,
    wrap_to,
)
from refusal_eval.plots.captions import label_with_protocol, study_words
from refusal_eval.plots.figure_data import Caption, Drawn, FigureData, fits
from refusal_eval.plots.style import FAINT, INK, LINE_HEIGHT
from refusal_eval.report.paper.display import mark_of
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
_COUNTED = {"strict": (REFUSAL,), "broad": (REFUSAL, PARTIAL), "all": LABELS}

# Dark and light in turn, so that neighbours differ on grey paper; the number in a segment names its kind.
_COLOURS = (
    "#08519C", "#FDD0A2", "#006D2C", "#DADAEB", "#A63603", "#9ECAE1", "#54278F", "#FEE391", "#41AB5D", "#F4B6C2",
    "#525252", "#C7E9C0", "#980043", "#FFF7BC", "#01665E", "#FA9FB5",
)  # fmt: skip
_PALE = {NO_KIND: "white", COMPLIANCE: FAINT}
_BAR = 10.0  # points, the height of a bar
_ROW = 13.0
_GROUP = "All splits"


class RefusalKindsFigure(Ordered):
    """How answers refuse: stacked shares of the kinds of refusal that the judge tells; of a judge with `kinds` of its
    own, those of all answers."""

    report: ClassVar[tuple[str, str, str]] = (
        "Refusal rates",
        "Kinds of refusal",
        "How answers refuse: the share of each kind of refusal among the answers that the judge calls refusals, or of "
        "each kind among all answers. The numbers in the segments name the kinds; n is the number of those answers.",
    )
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
            fig = _draw(bars, kinds, data, data.points(wide))
            if fits(fig):
                return Drawn(fig, _frame(bars, kinds, data.judge, counted), self._caption(kinds, by, counted, data))
        raise data.too_high(fig, "name fewer under `models`" + (" or `splits`" if by == "split" else ""))

    def _caption(self, kinds: Sequence[str], by: str, counted: str, data: FigureData) -> Caption:
        called = {"strict": "calls refusals", "broad": "calls refusals and partial refusals", "all": "labels"}[counted]
        words = [
            f"Shares among the answers that the judge {called}; n: their number, of K = {k_text(data.scores)} "
            "answers per prompt. Numbers in segments name the kind; segments too narrow for theirs follow in the same "
            "order. No intervals: answers to one prompt are not independent.",
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
        return Caption(self.title or ("What answers do." if counted == "all" else "How answers refuse."), words)


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


def _draw(bars: Sequence[Bar], kinds: Sequence[str], data: FigureData, width: float) -> Figure:
    """Draw a row for each bar, and one for the name of each group above its bars."""
    from matplotlib.patches import Patch

    rows: list[tuple[list[str], Bar | None]] = []
    for bar in bars:
        head = data.labels.split(bar.split) if bar.split else _GROUP
        if not rows or rows[-1][1] is None or rows[-1][1].split != bar.split:
            rows.append((wrap_to(head, 0.36 * width, bold=True), None))
        rows.append((wrap_to(data.labels.model(bar.model), 0.34 * width), bar))
    heights = [max(_ROW, len(lines) * LINE_HEIGHT + 3) for lines, _ in rows]
    fig = new_figure(width, heights)
    ax = fig.subplots()
    heads = [i for i, (_, bar) in enumerate(rows) if bar is None]
    middles = name_rows(ax, heights, ["\n".join(lines) for lines, _ in rows], bold=heads)
    sizes = ["n" if bar is None else str(sum(bar.kinds.values())) + mark_of(bar.flags) for _, bar in rows]
    right = ax.secondary_yaxis("right")
    right.set_yticks(middles, sizes)
    right.tick_params(length=0)
    right.spines["right"].set_visible(False)
    ax.set_xlim(0, 100)
    ax.set_xlabel(label_with_protocol("Share (%)", data.scores))
    if kinds:
        names = [f"{number} {isolate(kind.replace('_', ' '))}" for number, kind in enumerate(kinds, 1)]
        boxes = [Patch(facecolor=_colour(kind, kinds), edgecolor=INK, linewidth=0.4) for kind in kinds]
        legend(fig, boxes, names, below=True)
    points = width_of(ax) / 100
    for y, bar in ((y, bar) for y, (_, bar) in zip(middles, rows, strict=True) if bar is not None):
        total = sum(bar.kinds.values())
        if not total:
            text = " none labelled a refusal" if bar.labelled else " no verdict"
            ax.text(0, y, text, va="center_baseline", in_layout=False)
            continue
        shares = [100 * bar.kinds.get(kind, 0) / total for kind in kinds]
        starts = accumulate(shares, initial=0.0)
        numbered = enumerate(zip(starts, shares, (_colour(kind, kinds) for kind in kinds), strict=False), 1)
        segments = [(number, *segment) for number, segment in numbered if segment[1]]
        ranges, colours = [(start, share) for _, start, share, _ in segments], [colour for *_, colour in segments]
        look: dict[str, Any] = {"facecolors": colours, "edgecolor": INK, "linewidth": 0.4, "clip_on": False}
        ax.broken_barh(ranges, (y - _BAR / 2, _BAR), in_layout=False, **look)
        for number, start, share, colour in segments:
            if share * points >= text_width(str(number)) + 2.5:
                middle: dict[str, Any] = {"ha": "center", "va": "center_baseline"}
                ax.text(start + share / 2, y, str(number), in_layout=False, color=ink_on(colour), **middle)
    return settle(fig, ax, [sum(heights)])


def _colour(kind: str, kinds: Sequence[str]) -> str:
    if kind in _PALE:
        return _PALE[kind]
    if kind in KINDS:
        return _COLOURS[KINDS.index(kind)]
    others = [name for name in kinds if name not in KINDS and name not in _PALE]
    first = len(KINDS) if len(others) < len(kinds) else 0  # the colours of kinds that are drawn too are taken
    return _COLOURS[(first + others.index(kind)) % len(_COLOURS)]


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
