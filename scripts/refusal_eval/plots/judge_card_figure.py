"""One page about one judge: how well it agrees with people, on which answers, where it errs, what its numbers mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from refusal_eval.core.states import LABELS
from refusal_eval.plots.calibration_figure import RELIABILITY_HEIGHT, draw_reliability, reliability_text
from refusal_eval.plots.layout import EDGE, axes_at, numbers_inside, page, put, text_width, tile, widest, wrap_to
from refusal_eval.plots.panels import draw_marks
from refusal_eval.plots.style import BLUE, COLUMN_WIDTH, GREY, INK, LINE_HEIGHT, PAGE_HEIGHT, VERMILLION, styled
from refusal_eval.report.paper.display import MINUS, Labels, annotators, clean, number, percent
from refusal_eval.report.paper.table_notes import share_text, statistic, value_text, weights_text
from refusal_eval.stats.agreement.judge_card import UNJUDGED
from refusal_eval.stats.agreement.measures import MIN_ROWS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Card = Mapping[str, Any]
Group = Mapping[str, Any]
Scales = tuple[Sequence[float], Sequence[float]]  # ticks of shares, and of kappa

_MOST_MODELS = 8
_ROW = 21.0  # points for the marks of one group of answers
_GAP = 9.0
_AXIS = 22.0  # points below the panels for their scales
_TILE = 19.0
# measure, colour, marker, words; filled marks are shares, each on a line of its own within a row
_SHARES = (
    ("sensitivity", BLUE, "o", "sensitivity"),
    ("specificity", VERMILLION, "s", "specificity"),
    ("balanced_accuracy", INK, "D", "balanced accuracy"),
)
_KAPPAS = (("broad", INK, "o", "broad"), ("strict", "white", "o", "strict"))
_SCALES = ((0.8, 0.9, 1.0), (0.5, 0.75, 1.0), (0.0, 0.5, 1.0), (-0.5, 0.0, 0.5, 1.0), (-1.0, 0.0, 1.0))
_EXPECTED = {"comply": "should comply", "refuse": "should refuse", "varies": "answers may vary"}


def card_figure(card: Card, labels: Labels | None = None, threshold: float | None = None) -> Figure:
    """The card of a judge on one gold set as a figure of 8.5 cm width that fits a page.

    From above: the headline; sensitivity, specificity and balanced accuracy (broad) and kappa for all answers, each
    answering model (the worst first; as many as fit, at most 8) and each expectation; the confusion table; for judges
    with probabilities the reliability diagram, as given and calibrated out of fold.

    Args:
        card: the card.
        labels: of judges and gold sets.
        threshold: the judge's own threshold, None where it has none or is not known.
    """
    show, width = labels or Labels(), COLUMN_WIDTH
    with styled():
        head = _wrapped(_headline(card, show))
        title = wrap_to(f"{show.judge(card['judge'])} on {show.gold(card['gold'])}", width - 2 * EDGE, bold=True)
        words = _wrapped(reliability_text(card))
        for most in range(_MOST_MODELS, 0, -1):
            rows, left_out = _rows(card, most)
            scales = _scales(card, [group for _, group in rows])
            names = [wrap_to(name, 0.36 * width) for name, _ in rows]
            heights = [max(_ROW, len(lines) * LINE_HEIGHT + 3) for lines in names]
            notes = _wrapped(_notes(card, left_out, _cut([group for _, group in rows], scales), threshold))
            top = EDGE + (len(title) + len(head)) * LINE_HEIGHT + _GAP
            forest = top + 2 * LINE_HEIGHT + 5
            confusion = forest + sum(heights) + _AXIS + _GAP
            below = confusion + (len(LABELS) * _TILE + 2 * LINE_HEIGHT) + _GAP
            notes_at = below + (RELIABILITY_HEIGHT + len(words) * LINE_HEIGHT + _GAP if words else 0)
            height = notes_at + len(notes) * LINE_HEIGHT + EDGE
            if height <= PAGE_HEIGHT:
                break
        fig, sheet = page(width, height)
        put(sheet, EDGE, EDGE, title, bold=True)
        put(sheet, EDGE, EDGE + len(title) * LINE_HEIGHT, head)
        left = EDGE + max(widest(lines) for lines in names) + 6
        _forest(fig, sheet, card, [group for _, group in rows], names, heights, (left, top, forest), scales)
        _confusion(sheet, card, confusion)
        if words:
            draw_reliability(fig, sheet, card, below, width)
            put(sheet, EDGE, below + RELIABILITY_HEIGHT, words)
        put(sheet, EDGE, notes_at, notes)
        return fig


def _wrapped(texts: Sequence[str]) -> list[str]:
    return [line for text in texts for line in wrap_to(text, COLUMN_WIDTH - 2 * EDGE)]


def _rows(card: Card, most: int) -> tuple[list[tuple[str, Group]], int]:
    """Name and numbers of each row, with at most that many models, and how many models have none."""
    worst = (card["headline"]["broad"] or {}).get("answering_model")
    models = sorted(card["models"], key=lambda g: (g["answering_model"] != worst, g["answering_model"]))
    rows: list[tuple[str, Group]] = [("All answers", card)]
    for group in models[:most] if len(models) > 1 else []:
        mark = " (worst)" if group["answering_model"] == worst else ""
        rows.append((clean(group["answering_model"]) + mark, group))
    for group in card["expectations"] if len(card["expectations"]) > 1 else []:
        rows.append((_EXPECTED.get(group["expectation"], clean(group["expectation"])), group))
    return rows, max(0, len(models) - most)


def _headline(card: Card, show: Labels) -> list[str]:
    part, worst = card["broad"], card["headline"]["broad"]
    judged = f"{card['n']} answers" if card["n_judged"] == card["n"] else f"{card['n_judged']} of {card['n']} answers"
    who = annotators(card["raters"])
    texts = [f"{judged} judged{f', each labelled by {who}' if who else ''}."]
    if worst and len(card["models"]) > 1:
        name = clean(worst["answering_model"])
        texts.append(f"Worst of {worst['of']} answering models, {name}: {_summary(worst)}.")
    elif len(card["models"]) > 1:
        texts.append("No answering model has enough answers of both classes to be called the worst.")
    return [*texts, f"All: {_summary(part)}."]


def _summary(part: Mapping[str, Any]) -> str:
    share = part["balanced_accuracy"]
    accuracy = share_text(share, part["intervals"]["balanced_accuracy"]) + ("" if share is None else " %")
    return f"balanced accuracy {accuracy}, kappa {value_text(part['kappa'], part['intervals']['kappa'])}"


def _forest(
    fig: Figure,
    sheet: Axes,
    card: Card,
    groups: Sequence[Group],
    names: Sequence[Sequence[str]],
    heights: Sequence[float],
    places: tuple[float, float, float],
    scales: Scales,
) -> None:
    left, top, start = places
    half = (COLUMN_WIDTH - left - EDGE - 12) / 2
    shares = axes_at(fig, left, start, half, sum(heights))
    kappas = axes_at(fig, left + half + 12, start, half, sum(heights))
    y = 0.0
    for lines, group, height in zip(names, groups, heights, strict=True):
        middle = y + height / 2
        put(sheet, left - 6, start + middle - len(lines) * LINE_HEIGHT / 2, lines, align="right")
        for place, (name, colour, marker, _) in enumerate(_SHARES):
            part = group["broad"]
            _mark(shares, part[name], part["intervals"][name], middle + 5.5 * (place - 1), colour, marker)
        for place, (reading, colour, marker, _) in enumerate(_KAPPAS):
            part = group[reading]
            _mark(kappas, part["kappa"], part["intervals"]["kappa"], middle + 7 * (place - 0.5), colour, marker)
        if y:
            for ax in (shares, kappas):
                ax.axhline(y, color="#CCCCCC", linewidth=0.4, zorder=0)
        y += height
    _scale(shares, y, scales[0], [f"{100 * tick:g}" for tick in scales[0]], "Share (%, broad)")
    _scale(kappas, y, scales[1], [f"{tick:g}".replace("-", MINUS) for tick in scales[1]], "Kappa")
    _legend(sheet, EDGE, top, "Shares:", _SHARES)
    _legend(sheet, EDGE, top + LINE_HEIGHT, "Kappa:", _KAPPAS)
    human = (card["people"]["human_kappa"] or {}).get("broad")
    if human is not None:
        kappas.axvline(human, color=BLUE, linewidth=1)
    for kappa in _published_kappas(card):
        kappas.axvline(kappa, color=GREY, linewidth=0.8, linestyle=(0, (3, 2)))


def _published(card: Card, measure: str) -> dict[str, list[tuple[str, float]]]:
    """Name and number of each published anchor that has this measure, `kappa` or `f1`, by reading."""
    found: dict[str, list[tuple[str, float]]] = {}
    for anchor in card["people"]["anchors"]:
        if anchor.get(measure) is not None:
            own = found.setdefault(anchor.get("reading") or "broad", [])
            own.append((clean(anchor["name"]), float(anchor[measure])))
    return found


def _published_kappas(card: Card) -> list[float]:
    """The kappa of each anchor: all are lines on the one scale of kappa."""
    return [kappa for own in _published(card, "kappa").values() for _, kappa in own]


def _mark(ax: Axes, value: float | None, ends: Any, y: float, colour: str, marker: str) -> None:
    if value is None:
        return
    look = _look(colour, marker)
    if ends and None not in ends:
        line = look["markeredgecolor"]
        ax.plot(ends, [y, y], color=line, linewidth=0.9, solid_capstyle="butt", zorder=2)
    ax.plot([value], [y], clip_on=False, zorder=3, **look)


def _scales(card: Card, groups: Sequence[Group]) -> Scales:
    """Ticks of shares and of kappa: one of a few scales to 1, the shortest one that holds everything."""
    shares = _lowest(groups, [name for name, *_ in _SHARES], ("broad",))
    kappas = min([_lowest(groups, ["kappa"], ("broad", "strict")), *_published_kappas(card)])
    return _ticks(shares), _ticks(kappas)


def _ticks(lowest: float) -> Sequence[float]:
    return next((ticks for ticks in _SCALES if ticks[0] <= lowest), _SCALES[-1])


def _cut(groups: Sequence[Group], scales: Scales) -> bool:
    """Whether a bar goes on beyond the left end of its scale."""
    shares = [group["broad"]["intervals"][name] for group in groups for name, *_ in _SHARES]
    kappas = [group[reading]["intervals"]["kappa"] for group in groups for reading, *_ in _KAPPAS]
    parts = ((ends, scale[0]) for found, scale in zip((shares, kappas), scales, strict=True) for ends in found)
    return any(ends and None not in ends and ends[0] < start for ends, start in parts)


def _scale(ax: Axes, height: float, ticks: Sequence[float], numbers: Sequence[str], label: str) -> None:
    ax.set_ylim(height, 0)
    ax.set_xlim(ticks[0], 1)
    ax.set_yticks([])
    ax.set_xticks(ticks, numbers)
    ax.set_xlabel(label, labelpad=1)
    ax.spines[["top", "right", "left"]].set_visible(False)
    numbers_inside(ax)


def _lowest(groups: Sequence[Group], names: Sequence[str], readings: Sequence[str]) -> float:
    """The lowest value and end of an interval; the wide intervals of a few answers must not squeeze all others."""
    found = [1.0]
    for part in (group[reading] for group in groups for reading in readings):
        enough = min(part["n_positive"], part["n_negative"]) >= MIN_ROWS
        for name in names:
            ends = part["intervals"][name]
            found += [part[name]] if part[name] is not None else []
            found += [ends[0]] if enough and ends else []
    return min(found)


def _legend(sheet: Axes, x: float, y: float, title: str, marks: Sequence[tuple[str, str, str, str]]) -> None:
    put(sheet, x, y, [title])
    start = x + max(text_width("Shares:"), text_width(title)) + 3
    draw_marks(sheet, start, y, [(words, _look(colour, marker)) for _, colour, marker, words in marks])


def _look(colour: str, marker: str) -> dict[str, Any]:
    edge = {"markeredgecolor": INK if colour == "white" else colour, "markeredgewidth": 0.7}
    return {"marker": marker, "color": colour, "markersize": 3.2, **edge}


def _confusion(sheet: Axes, card: Card, top: float) -> None:
    table = card["confusion"]
    columns = [*LABELS, *([UNJUDGED] if any(table[label][UNJUDGED] for label in LABELS) else [])]
    left = EDGE + widest([f"People: {label}" for label in LABELS]) + 6
    step = (COLUMN_WIDTH - left - EDGE) / len(columns)
    put(sheet, left + step * len(columns) / 2, top, ["The judge says"], align="center")
    for i, column in enumerate(columns):
        put(sheet, left + (i + 0.5) * step, top + LINE_HEIGHT, [column], align="center")
    y = top + 2 * LINE_HEIGHT + 2
    parts = card["weighted"]["confusion"] if card.get("weighted") else table
    for label in LABELS:
        put(sheet, left - 6, y + (_TILE - LINE_HEIGHT) / 2, [f"People: {label}"], align="right")
        total = sum(parts[label].values())
        for i, column in enumerate(columns):
            share = parts[label][column] / total if total else None
            words = [str(table[label][column])] + ([f"{percent(share, 0)} %"] if share is not None else [])
            tile(sheet, (left + i * step, y, step, _TILE), words, share)
        y += _TILE


def _notes(card: Card, left_out: int, cut: bool, threshold: float | None) -> list[str]:
    notes = [
        f"Bars: {100 * card['level']:g} % intervals over {card['n_clusters']} clusters. Broad: partial refusals count "
        "as refusals; strict: they do not.",
        "Sensitivity: share of people's refusals that the judge finds; specificity: share of the rest it leaves alone.",
    ]
    if cut:
        notes.append("A bar that touches the left edge goes on.")
    if card.get("weighted"):
        notes.append(weights_text(card) + " Numbers in the table above are rows, percentages are by weight.")
    if card["n_cut"]:
        notes.append(f"{card['n_cut']} answers are too long for the judge: it saw their head and tail.")
    if left_out:
        notes.append(f"{left_out} more answering models are in the table.")
    human = (card["people"]["human_kappa"] or {}).get("broad")
    if human is not None:
        notes.append(f"Blue line: {statistic(card['people']['human_kappa'])} among people, {number(human)} (broad).")
    for reading, anchors in _published(card, "kappa").items():
        told = ", ".join(f"{name} {number(kappa)}" for name, kappa in anchors)
        notes.append(f"Dashed: published kappa of others on this gold set ({reading.replace('_', ' ')}): {told}.")
    for reading, anchors in _published(card, "f1").items():
        told, f1 = ", ".join(f"{name} {percent(value)} %" for name, value in anchors), card[reading]["f1"]
        own = "" if f1 is None else f"; this judge's is {percent(f1)} %"
        notes.append(f"Published F1 of others on this gold set ({reading}): {told}{own}.")
    if card["few_clusters"]:
        notes.append("Fewer than 30 clusters: the intervals are approximate.")
    if card.get("calibration"):
        at = "" if threshold is None else f" (p of at least {threshold:g})"
        labels_from = clean(card["labels_from"]).replace("own threshold", f"own threshold{at}")
        notes.append(f"Labels: {labels_from}.")
    return notes
