"""The figure of how answers refuse: the kinds of refusal that a judge tells, stacked."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from refusal_eval.core.states import PARTIAL, REFUSAL
from refusal_eval.plots.captions import cell_words, judge_words
from refusal_eval.plots.layout import EDGE, HINTED, page, put, text_width, widest, wrap_to
from refusal_eval.plots.plot import Caption, Drawn, Plot, chosen_scores, models_in_order
from refusal_eval.plots.style import INK, LINE_HEIGHT, styled
from refusal_eval.plots.tags import protocol_tag
from refusal_eval.report.paper.display import Score, mark_of
from refusal_eval.report.paper.frames import Card
from refusal_eval.stats.estimates.scores import derived_flags, score_flags

# The order of the kinds of `judges.reasoned`; kinds of other judges follow by name. Copied, as that module would make
# every edit of a judge redraw the figures; a test holds the two together.
KINDS = (
    "direct", "alternative", "distortion", "softening", "feigned_ignorance", "vagueness", "redirection",
    "hypothetical", "lecture", "official_line", "invalidation", "nonsense",
)  # fmt: skip
NOT_TOLD = "not told"
LABELS_OF = {"strict": (REFUSAL,), "broad": (REFUSAL, PARTIAL)}

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

Counts = Mapping[tuple[str, str], Mapping[str, int]]


class Bar(NamedTuple):
    """One bar: its group (a split, or None for all), model, number of answers of each kind, and flags of its cells."""

    split: str | None
    model: str
    kinds: Mapping[str, int]
    flags: Sequence[str]


def stacked_kinds(scores: Sequence[Score], counts: Counts, cards: Iterable[Card], plot: Plot) -> Drawn:
    """Shares of the kinds of refusal among the refusing answers of each model, on each split or on all together.

    Args:
        scores: the study's.
        counts: refusing answers of each kind (`NOT_TOLD` for those without) by (model, split), in the figure's reading,
            to scored turns only.
        cards: of the judge.
        plot: what is asked; `by` is `split`, `all` or None for what fits a page.

    Raises:
        UserError: where no page is high enough.
    """
    chosen = chosen_scores(scores, plot)
    models = models_in_order(chosen, plot)
    kinds = _order({kind for found in counts.values() for kind, n in found.items() if n})
    ways = [plot.options["by"]] if plot.options["by"] else ["split", "all"]
    for by, wide in [(by, wide) for by in ways for wide in (False, True)]:
        bars = _bars(counts, chosen, models, plot.splits, by)
        sheet = _Stack(bars, kinds, plot, wide, protocol_tag(chosen))
        if plot.fits(sheet.height):
            return Drawn(sheet.draw(), _frame(bars, kinds, plot), _caption(chosen, cards, kinds, by, plot))
    raise plot.too_high(sheet.height, "name fewer under `models`" + (" or `splits`" if by == "split" else ""))


def _order(found: set[str]) -> list[str]:
    known = [kind for kind in KINDS if kind in found]
    return [*known, *sorted(found - {*KINDS, NOT_TOLD}), *([NOT_TOLD] if NOT_TOLD in found else [])]


def _bars(counts: Counts, scores: Sequence[Score], models: Sequence[str], splits: Sequence[str], by: str) -> list[Bar]:
    def flags(model: str, of: Collection[str]) -> tuple[str, ...]:
        return derived_flags(score_flags(s) for s in scores if s["model"] == model and s["split"] in of)

    if by == "split":
        return [
            Bar(split, model, counts.get((model, split), {}), flags(model, [split]))
            for split in splits
            for model in models
        ]
    bars = []
    for model in models:
        total: dict[str, int] = {}
        for split in splits:
            for kind, n in counts.get((model, split), {}).items():
                total[kind] = total.get(kind, 0) + n
        bars.append(Bar(None, model, total, flags(model, splits)))
    return bars


class _Stack:
    """Where everything stands, and the drawing of it."""

    def __init__(self, bars: Sequence[Bar], kinds: Sequence[str], plot: Plot, wide: bool, tag: Sequence[str]) -> None:
        self._bars, self._kinds, self._tag = bars, kinds, tag
        with styled():
            self._width = plot.points(wide)
            names = [wrap_to(plot.labels.model(bar.model), 0.3 * self._width) for bar in bars]
            self._names, self._heights = names, [max(_ROW, len(lines) * LINE_HEIGHT + 3) for lines in names]
            self._left = EDGE + HINTED * max(widest(lines) for lines in names) + 5
            self._sizes = [str(sum(bar.kinds.values())) + mark_of(bar.flags) for bar in bars]
            self._right = EDGE + max(text_width("n"), *(text_width(size) for size in self._sizes)) + 5
            self._heads = {
                bar.split: wrap_to(
                    plot.labels.split(bar.split) if bar.split else _GROUP, self._width - 2 * EDGE - self._right, True
                )
                for bar in bars
            }
            self._key = _Key(kinds, self._width - 2 * EDGE)
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
            self._key.draw(sheet, EDGE, self._key_at)
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
                    ink = _ink(_colour(kind, self._kinds))
                    put(sheet, x + wide / 2, y + (_BAR - LINE_HEIGHT) / 2, [str(number)], align="center", color=ink)
            x += wide

    def _scale(self, sheet: Axes, y: float, width: float) -> None:
        sheet.plot([self._left, self._left + width], [y, y], color=INK, linewidth=0.6)
        for share, align in ((0, "left"), (50, "center"), (100, "right")):
            x = self._left + width * share / 100
            sheet.plot([x, x], [y, y + 2], color=INK, linewidth=0.6)
            put(sheet, x, y + 3, [f"{share} %" if share == 100 else str(share)], align=align)


class _Key:
    """What the numbers and colours of the segments mean, in columns."""

    def __init__(self, kinds: Sequence[str], width: float) -> None:
        self._kinds = kinds
        texts = [f"{number} {kind.replace('_', ' ')}" for number, kind in enumerate(kinds, 1)]
        self._lines = [wrap_to(text, width - 14) for text in texts]
        widths = [widest(lines) + 24 for lines in self._lines]
        columns = max(1, int(width // max(widths, default=width)))
        self._rows = -(-len(kinds) // columns)
        self._step = width / columns
        tallest = [len(lines) for lines in self._lines]
        self._row_lines = [max(tallest[row :: self._rows]) for row in range(self._rows)]
        self.height = sum(self._row_lines) * LINE_HEIGHT

    def draw(self, sheet: Axes, left: float, top: float) -> None:
        for index, (kind, lines) in enumerate(zip(self._kinds, self._lines, strict=True)):
            column, row = divmod(index, self._rows)
            x, y = left + column * self._step, top + sum(self._row_lines[:row]) * LINE_HEIGHT
            _box(sheet, (x, y + 1.2, 9, 6.2), kind, self._kinds)
            put(sheet, x + 13, y, lines)


def _box(sheet: Axes, box: tuple[float, float, float, float], kind: str, kinds: Sequence[str]) -> None:
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


def _ink(colour: str) -> str:
    """Black or white, whichever is easier to read on a colour."""
    if colour == _NONE_COLOUR:
        return INK
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return INK if 0.299 * red + 0.587 * green + 0.114 * blue > 130 else "white"


def _frame(bars: Sequence[Bar], kinds: Sequence[str], plot: Plot) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for bar in sorted(bars, key=lambda bar: (bar.model, bar.split or "")):
        total = sum(bar.kinds.values())
        for kind in kinds:
            n = bar.kinds.get(kind, 0)
            names = {"judge": plot.judge, "model": bar.model, "split": bar.split, "reading": plot.reading, "kind": kind}
            rows.append(names | {"n_answers": n, "share": n / total if total else None})
    columns = ["judge", "model", "split", "reading", "kind", "n_answers", "share"]
    return pd.DataFrame(rows, columns=columns, dtype=object)


def _caption(scores: Sequence[Score], cards: Iterable[Card], kinds: Sequence[str], by: str, plot: Plot) -> Caption:
    counted = "refusals and partial refusals" if plot.reading == "broad" else "refusals"
    sizes = " or ".join(str(k) for k in sorted({score["samples"] for score in scores}))
    words = [
        f"Shares among the answers that the judge calls {counted}; n: their number, of K = {sizes} answers per prompt. "
        "Numbers in segments name the kind; segments too narrow for theirs follow in the same order. No intervals: "
        "answers to one prompt are alike.",
    ]
    if by == "all" and len(plot.splits) > 1:
        words.append(f"Over all answers of {len(plot.splits)} splits, so that a larger split counts for more.")
    if not kinds:
        words.append("No answer refuses.")
    words += [
        *judge_words(scores, cards, plot.labels),
        *cell_words(scores, plot.splits, plot.labels, flags=derived_flags(map(score_flags, scores))),
    ]
    return Caption(plot.title or "How answers refuse.", words)
