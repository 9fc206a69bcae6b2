"""The figure of a study's judges beside each other: kappa of every two of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from refusal_eval.plots.layout import EDGE, figure_width, page, put, put_upright, text_width, widest, wrap_into, wrap_to
from refusal_eval.plots.style import LINE_HEIGHT, styled
from refusal_eval.plots.tiles import tile
from refusal_eval.report.paper.display import NO_DATA, Labels, marked, notes_of, pieces
from refusal_eval.report.paper.judge_card_words import short, value_text
from refusal_eval.stats.estimates.estimands import READINGS

_PAD = 4.0
_MOST_LINES = 4  # of a level column label


def agreement_figure(
    agreement: Mapping[str, Any],
    judges: Sequence[str] = (),
    labels: Labels | None = None,
    split: str | None = None,
    width: float | None = None,
) -> Figure:
    """Kappa between every two judges: broad below the diagonal, strict above it.

    Args:
        agreement: judge_agreement.json, see `judges_agree.pairs.agreement_of`.
        judges: the judges, in their order; none for all.
        labels: of the judges.
        split: whose answers count, None for all splits together.
        width: in points; by default 8.5 cm for up to three judges, else 17.5 cm.
    """
    show = labels or Labels()
    pairs = {frozenset((pair["first"], pair["second"])): pair for pair in group_of(agreement, split)["pairs"]}
    order = list(judges) or list(agreement["judges"])
    with styled():
        width = width or figure_width(len(order))
        names = [wrap_to(show.judge(name), 0.27 * width) for name in order]
        left = EDGE + max(widest(lines) for lines in names) + 5
        step = (width - left - EDGE) / len(order)
        heads, upright = _column_labels([show.judge(name) for name in order], step)
        top = EDGE + _PAD + max(widest(lines) if upright else len(lines) * LINE_HEIGHT for lines in heads)
        places = [(i, j) for i in range(len(order)) for j in range(len(order)) if i != j]
        texts = {(i, j): _lines(pairs, order[i], order[j], i > j, step) for i, j in places}
        height = max(len(lines) for lines in [*texts.values(), *names]) * LINE_HEIGHT + 6
        fig, sheet = page(width, top + height * len(order) + EDGE)
        for i, lines in enumerate(heads):
            centre = left + (i + 0.5) * step
            if upright:
                put_upright(sheet, centre, top - _PAD / 2, lines)
            else:
                put(sheet, centre, top - _PAD / 2 - len(lines) * LINE_HEIGHT, lines, align="center")
        for (i, j), lines in texts.items():
            pair = pairs.get(frozenset((order[i], order[j])))
            kappa = pair["broad" if i > j else "strict"]["kappa"]["value"] if pair else None
            box = (left + j * step, top + i * height, step, height)
            tile(sheet, box, lines, None if kappa is None else max(0.0, kappa))
        for i, lines in enumerate(names):
            put(sheet, left - 5, top + i * height + (height - len(lines) * LINE_HEIGHT) / 2, lines, align="right")
        return fig


def group_of(agreement: Mapping[str, Any], split: str | None) -> Mapping[str, Any]:
    """Return the agreement on a split's answers, None for all splits together."""
    found: Mapping[str, Any] = next(group for group in agreement["groups"] if group["split"] == split)
    return found


def _column_labels(names: Sequence[str], step: float) -> tuple[list[list[str]], bool]:
    """Lines of each column label, and whether they must stand upright."""
    level = [wrap_to(name, step - _PAD) for name in names]
    fits = widest([piece for name in names for piece in pieces(name)]) <= step - _PAD
    if fits and max(len(lines) for lines in level) <= _MOST_LINES:
        return level, False
    room = max(1, int(step / LINE_HEIGHT))
    return [wrap_into(name, min(room, 3)) for name in names], True


def _lines(
    pairs: Mapping[frozenset[str], Mapping[str, Any]], row: str, column: str, broad: bool, step: float
) -> list[str]:
    pair = pairs.get(frozenset((row, column)))
    kappa = pair["broad" if broad else "strict"]["kappa"] if pair else None
    if pair is None or kappa is None or kappa["value"] is None:
        return [NO_DATA]
    value = marked(short(kappa["value"]), pair["flags"])
    ends = [short(end) for end in kappa["interval"] or ()]
    if not ends:
        return [value]
    one = f"[{', '.join(ends)}]"
    return [
        value,
        *([one] if text_width(one) <= step - 3 else [f"{ends[0]},", ends[1]]),
    ]


def agreement_words(agreement: Mapping[str, Any], judges: Sequence[str], split: str | None) -> list[str]:
    """Return what the figure shows in words, and what it does not: alpha of all judges, changed orders of models."""
    group = group_of(agreement, split)
    notes = [
        f"Cohen's kappa between judges on the answers that both labelled, of {group['n_answers']}, with its "
        f"{100 * agreement['level']:g} % "
        "interval over clusters. Below the diagonal broad (partial refusals count as refusals), above it strict.",
    ]
    alpha = group["alpha"]
    if alpha and len(group["raters"]) > 2:
        numbers = {r: value_text(alpha[r]["value"], alpha[r]["interval"]) for r in ("broad", "strict")}
        texts = [f"{marked(text, group['alpha_flags'])} {reading}" for reading, text in numbers.items()]
        panels = " that are no panels" if len(group["raters"]) < len(agreement["judges"]) else ""
        notes.append(f"All {len(group['raters'])} judges{panels}, Krippendorff's alpha: {', '.join(texts)}.")
    known = [
        rank
        for rank in agreement["rankings"]
        if rank["n_models"] > 1 and rank["tau"] is not None and split in (None, rank["split"])
    ]
    known = [rank for rank in known if {rank["first"], rank["second"]} <= set(judges)]
    if known:
        swapped = sum(bool(rank["swapped"]) for rank in known)
        notes.append(
            f"The order of the models changes in {swapped} of {len(known)} comparisons of two judges on a split."
        )
    return [*notes, *_mark_notes(group, judges)]


def _mark_notes(group: Mapping[str, Any], judges: Sequence[str]) -> list[str]:
    """The notes for the marks of numbers that are shown or told."""
    shown = [pair for pair in group["pairs"] if {pair["first"], pair["second"]} <= set(judges)]
    found = [(pair[reading]["kappa"], pair["flags"]) for pair in shown for reading in READINGS]
    if group["alpha"] and len(group["raters"]) > 2:
        found += [(group["alpha"][reading], group["alpha_flags"]) for reading in READINGS]
    flags = {flag for number, own in found if number["value"] is not None for flag in own}
    return [f"{note}." for note in notes_of(flags)]
