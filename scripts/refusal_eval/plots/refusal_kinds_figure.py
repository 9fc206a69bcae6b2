"""The figure of how answers refuse: the kinds of refusal that a judge tells, stacked."""

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
from refusal_eval.core.states import PARTIAL, REFUSAL
from refusal_eval.plots.captions import k_text, protocol_tag, study_words
from refusal_eval.plots.figure_data import Caption, Cell, Drawn, FigureData
from refusal_eval.plots.layout import EDGE, HINTED, ink_on, page, put, text_width, widest, wrap_to
from refusal_eval.plots.panels import Key
from refusal_eval.plots.style import INK, LINE_HEIGHT, styled
from refusal_eval.report.paper.display import Score, mark_of
from refusal_eval.stats.estimates.flags import derived_flags

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The order of the kinds of `judges.reasoned`; kinds of other judges follow by name. Copied, as that module would make
# every edit of a judge redraw the figures; a test holds the two together.
KINDS = (
    "direct", "alternative", "distortion", "softening", "feigned_ignorance", "vagueness", "redirection",
    "hypothetical", "lecture", "official_line", "invalidation", "nonsense",
)  # fmt: skip
NOT_TOLD = "not told"
_LABELS = {"strict": (REFUSAL,), "broad": (REFUSAL, PARTIAL)}

# Dark and light in turn, so that neighbours differ on grey paper; the number in a segment names its kind.
_COLOURS = (
    "#08519C", "#FDD0A2", "#006D2C", "#DADAEB", "#A63603", "#9ECAE1", "#54278F", "#FEE391", "#41AB5D", "#F4B6C2",
    "#525252", "#C7E9C0",
)  # fmt: skip
_NONE_COLOUR = "white"
_BAR = 10.0  # points, the height of a bar
_ROW = 13.0
_HEAD = 4.0
_GROUP = "All splits"


class RefusalKindsFigure(Ordered):
    """How answers refuse: stacked shares of the kinds of refusal that the judge tells."""

    report: ClassVar[tuple[str, str, str]] = (
        "Refusal rates",
        "Kinds of refusal",
        "How answers refuse: the share of each kind of refusal among the answers that the judge calls refusals. The "
        "numbers in the segments name the kinds; n is the number of those answers.",
    )
    needs: ClassVar[tuple[str, ...]] = ("estimates", "cells", "cards")

    kind: Literal["refusal_kinds"]
    splits: list[Slug] | None = SPLITS
    reading: Literal["strict", "broad"] = Field(
        "broad", description="`strict` counts refusals, `broad` partial refusals as well."
    )
    by: Literal["split", "all"] | None = Field(
        None, description="A bar for each model and `split`, or for each model over `all`. Default: what fits a page."
    )

    @classmethod
    def unasked(cls, study: StudyView) -> list[Self]:
        """Return one where the primary judge always tells kinds of refusal."""
        primary = study.judges[study.primary_judge]
        always = primary.tells_refusal_kinds == "always" and not _of_free_text(primary)
        return [cls(name="refusal_kinds", kind="refusal_kinds")] if always else []

    def mistakes(self, study: StudyView) -> Iterator[Mistake]:
        """Yield that the judge cannot tell kinds."""

        def able(entry: Any) -> bool:
            return entry.tells_refusal_kinds != "never" and not _of_free_text(entry)

        name = self.judge or study.primary_judge
        judge = study.judges.get(name)
        if judge is not None and not able(judge):
            form = ", form published" if _of_free_text(judge) else ""
            message = f"judge `{name}` (kind {judge.kind}{form}) does not tell kinds of refusal"
            others = [other for other, entry in study.judges.items() if able(entry)]
            yield ("judge",) if self.judge else ("kind",), message + able_judges(others)

    def draw(self, data: FigureData) -> Drawn:
        """Return shares of the kinds among the refusing answers of each model, on each split or on all together.

        Only answers to scored turns count, under the figure's reading.

        Raises:
            UserError: where no page is high enough.
        """
        counts = {cell: _counts(found, _LABELS[self.reading]) for cell, found in data.verdicts.items()}
        models, splits = data.models_in_order(), data.shown.splits
        kinds = _order({kind for found in counts.values() for kind, n in found.items() if n})
        for by, wide in [(by, wide) for by in ([self.by] if self.by else ["split", "all"]) for wide in (False, True)]:
            bars = _bars(counts, data.scores, models, splits, by)
            sheet = _Stack(bars, kinds, data, wide, protocol_tag(data.scores))
            if data.fits(sheet.height):
                caption = self._caption(kinds, by, data)
                return Drawn(sheet.draw(), _frame(bars, kinds, data.judge, self.reading), caption)
        raise data.too_high(sheet.height, "name fewer under `models`" + (" or `splits`" if by == "split" else ""))

    def _caption(self, kinds: Sequence[str], by: str, data: FigureData) -> Caption:
        counted = "refusals and partial refusals" if self.reading == "broad" else "refusals"
        words = [
            f"Shares among the answers that the judge calls {counted}; n: their number, of K = {k_text(data.scores)} "
            "answers per prompt. Numbers in segments name the kind; segments too narrow for theirs follow in the same "
            "order. No intervals: answers to one prompt are alike.",
        ]
        if by == "all" and len(data.shown.splits) > 1:
            words.append(
                f"Over all answers of {len(data.shown.splits)} splits, so that a larger split counts for more."
            )
        if not kinds:
            words.append("No answer refuses.")
        words += study_words(data, flags=derived_flags(score["flags"] for score in data.scores))
        return Caption(self.title or "How answers refuse.", words)


def _of_free_text(judge: Any) -> bool:
    """Whether a judge only searches a text for a word, which tells no kind."""
    return getattr(judge, "form", None) == "published"


def _counts(found: Mapping[tuple[str | None, str | None], int], labels: Collection[str]) -> Counter[str]:
    """Number of answers of each kind that have one of these labels; without a kind they are `NOT_TOLD`."""
    counts = Counter[str]()
    for (label, kind), n in found.items():
        if label in labels:
            counts[kind or NOT_TOLD] += n
    return counts


class Bar(NamedTuple):
    """One bar: its group (a split, or None for all), model, number of answers of each kind, and flags of its cells."""

    split: str | None
    model: str
    kinds: Mapping[str, int]
    flags: Sequence[str]


def _order(found: set[str]) -> list[str]:
    known = [kind for kind in KINDS if kind in found]
    return [*known, *sorted(found - {*KINDS, NOT_TOLD}), *([NOT_TOLD] if NOT_TOLD in found else [])]


def _bars(
    counts: Mapping[Cell, Counter[str]], scores: Sequence[Score], models: Sequence[str], splits: Sequence[str], by: str
) -> list[Bar]:
    groups = [(split, [split]) for split in splits] if by == "split" else [(None, list(splits))]
    bars = []
    for name, group in groups:
        for model in models:
            kinds = sum((counts.get((model, split), Counter()) for split in group), Counter[str]())
            own = (score["flags"] for score in scores if score["model"] == model and score["split"] in group)
            bars.append(Bar(name, model, kinds, derived_flags(own)))
    return bars


class _Stack:
    """Where everything stands, and the drawing of it."""

    def __init__(
        self, bars: Sequence[Bar], kinds: Sequence[str], data: FigureData, wide: bool, tag: Sequence[str]
    ) -> None:
        self._bars, self._kinds, self._tag = bars, kinds, tag
        with styled():
            self._width = data.points(wide)
            names = [wrap_to(data.labels.model(bar.model), 0.3 * self._width) for bar in bars]
            self._names, self._heights = names, [max(_ROW, len(lines) * LINE_HEIGHT + 3) for lines in names]
            self._left = EDGE + HINTED * max(widest(lines) for lines in names) + 5
            self._sizes = [str(sum(bar.kinds.values())) + mark_of(bar.flags) for bar in bars]
            self._right = EDGE + max(text_width("n"), *(text_width(size) for size in self._sizes)) + 5
            self._heads = {
                bar.split: wrap_to(
                    data.labels.split(bar.split) if bar.split else _GROUP, self._width - 2 * EDGE - self._right, True
                )
                for bar in bars
            }
            names_of_kinds = [f"{number} {kind.replace('_', ' ')}" for number, kind in enumerate(kinds, 1)]
            self._key = Key(names_of_kinds, self._width - 2 * EDGE, 13, len(kinds))
            heads = sum(_HEAD + len(lines) * LINE_HEIGHT for lines in self._heads.values())
            self._key_at = EDGE + heads + sum(self._heights) + 22
            self.height = self._key_at + self._key.height + len(tag) * LINE_HEIGHT + EDGE

    def draw(self) -> Figure:
        with styled():
            fig, sheet = page(self._width, self.height)
            y, right = EDGE, self._width - self._right
            before: object = ...  # None is the group of all splits
            put(sheet, self._width - EDGE, y + _HEAD, ["n"], align="right")
            for bar, lines, height, size in zip(self._bars, self._names, self._heights, self._sizes, strict=True):
                if bar.split != before:
                    put(sheet, EDGE, y + _HEAD, self._heads[bar.split], bold=True)
                    y += _HEAD + len(self._heads[bar.split]) * LINE_HEIGHT
                    before = bar.split
                put(sheet, self._left - 5, y + (height - len(lines) * LINE_HEIGHT) / 2, lines, align="right")
                put(sheet, self._width - EDGE, y + (height - LINE_HEIGHT) / 2, [size], align="right")
                self._draw_bar(sheet, bar, y + (height - _BAR) / 2, right - self._left)
                y += height
            self._scale(sheet, y + 2, right - self._left)
            for kind, (x, key_y) in zip(self._kinds, self._key.draw(sheet, EDGE, self._key_at), strict=True):
                _box(sheet, (x, key_y + 1.2, 9, 6.2), kind, self._kinds)
            put(sheet, EDGE, self._key_at + self._key.height, self._tag)
            return fig

    def _draw_bar(self, sheet: Axes, bar: Bar, y: float, width: float) -> None:
        total, x = sum(bar.kinds.values()), self._left
        if not total:
            put(sheet, x, y + (_BAR - LINE_HEIGHT) / 2, ["no refusal"])
            return
        for number, kind in enumerate(self._kinds, 1):
            wide = width * bar.kinds.get(kind, 0) / total
            if wide:
                _box(sheet, (x, y, wide, _BAR), kind, self._kinds)
                if wide >= text_width(str(number)) + 2.5:
                    ink = ink_on(_colour(kind, self._kinds))
                    put(sheet, x + wide / 2, y + (_BAR - LINE_HEIGHT) / 2, [str(number)], align="center", color=ink)
            x += wide

    def _scale(self, sheet: Axes, y: float, width: float) -> None:
        sheet.plot([self._left, self._left + width], [y, y], color=INK, linewidth=0.6)
        for share, align in ((0, "left"), (50, "center"), (100, "right")):
            x = self._left + width * share / 100
            sheet.plot([x, x], [y, y + 2], color=INK, linewidth=0.6)
            put(sheet, x, y + 3, [f"{share} %" if share == 100 else str(share)], align=align)


def _box(sheet: Axes, box: tuple[float, float, float, float], kind: str, kinds: Sequence[str]) -> None:
    from matplotlib.patches import Rectangle

    x, y, width, height = box
    colour = _colour(kind, kinds)
    sheet.add_patch(Rectangle((x, y), width, height, facecolor=colour, edgecolor=INK, linewidth=0.4))


def _colour(kind: str, kinds: Sequence[str]) -> str:
    if kind == NOT_TOLD:
        return _NONE_COLOUR
    if kind in KINDS:
        return _COLOURS[KINDS.index(kind)]
    others = [name for name in kinds if name not in KINDS]
    return _COLOURS[others.index(kind) % len(_COLOURS)]


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
