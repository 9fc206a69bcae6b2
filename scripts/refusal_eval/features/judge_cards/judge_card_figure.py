"""One page about one judge: how well it agrees with gold, on which answers, where it errs, what its numbers mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from refusal_eval.core.states import LABELS
from refusal_eval.features.judge_cards.calibration_figure import X_LABEL, draw_bins, reliability_text, samples, y_label
from refusal_eval.features.judge_cards.card_measures import UNJUDGED
from refusal_eval.features.judge_cards.judge_cards_table import answering_models
from refusal_eval.plots.base import (
    EDGE,
    Look,
    Tile,
    draw_mark,
    draw_tiles,
    name_columns,
    name_rows,
    new_figure,
    numbers_inside,
    put_lines,
    settle,
    wrap_to,
)  # fmt: skip
from refusal_eval.plots.figure_data import most_that_fits
from refusal_eval.plots.style import BLUE, COLUMN_WIDTH, GREY, INK, LINE_HEIGHT, VERMILLION, figure_style
from refusal_eval.report.paper.display import MINUS, Card, Labels, annotators, clean, number, percent
from refusal_eval.report.paper.table_notes import (
    is_peoples,
    met_texts,
    share_text,
    statistic,
    value_text,
    weights_text,
    whole_anchors,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CardPart = Mapping[str, Any]
Scales = tuple[Sequence[float], Sequence[float]]  # ticks of shares, and of kappa

_MOST_MODELS = 8
_TEXT_WIDTH = COLUMN_WIDTH - 2 * EDGE
_ROW = 21.0  # points for the marks of one group of answers
_TILE = 19.0
_DIAGRAM = 76.0
_BETWEEN = 1.5  # points on each side of the labels around a panel
_SHARES = {
    "sensitivity": Look(BLUE, BLUE, "o"),
    "specificity": Look(VERMILLION, VERMILLION, "s"),
    "balanced_accuracy": Look(INK, INK, "D"),
}
_KAPPAS = {"broad": Look(INK, INK, "o"), "strict": Look(INK, "white", "o")}
_SCALES = ((0.0, 0.5, 1.0), (-1.0, 0.0, 1.0))  # of all cards, and of kappa where one is below 0
_EXPECTED = {"comply": "should comply", "refuse": "should refuse", "varies": "answers may vary"}


def card_figure(card: Card, labels: Labels | None = None, threshold: float | None = None) -> Figure:
    """The card of a judge on one gold set as a figure of 8.5 cm width that fits a page.

    From above: the headline; sensitivity, specificity and balanced accuracy (broad) and kappa for all answers, each
    answering model (the worst first; as many as fit, at most 8) and each expectation; the confusion table; for judges
    with probabilities the reliability diagram, as given and calibrated; then what there is to say.

    Args:
        labels: of judges and gold sets.
        threshold: the judge's own threshold, None where it has none or is not known.
    """
    show = labels or Labels()
    with figure_style():
        title = wrap_to(f"{show.judge(card['judge'])} on {show.gold(card['gold'])}", _TEXT_WIDTH, bold=True)
        head = [*title, *_wrap(_headline(card, show))]
        words = reliability_text(card)

        def draw(most: int) -> Figure:
            rows, left_out = _rows(card, most)
            groups = [group for _, group in rows]
            kappas = _ticks(groups, [*_peoples_kappa(card), *_published_kappas(card)])
            notes = _wrap([*_notes(card, left_out, threshold), *reliability_text(card)])
            names = [wrap_to(name, 0.36 * COLUMN_WIDTH) for name, _ in rows]
            in_forest = [max(_ROW, len(lines) * LINE_HEIGHT + 3) for lines in names]
            high = {
                "head": len(head) * LINE_HEIGHT,
                "key": 2 * LINE_HEIGHT,
                "shares": sum(in_forest),
                "confusion": len(_classes(card)) * _TILE,
                **({"bins": _DIAGRAM} if words else {}),
                "notes": len(notes) * LINE_HEIGHT,
            }
            fig = new_figure(COLUMN_WIDTH, [*high.values()], _BETWEEN)
            places: Any = [[name, "kappas" if name == "shares" else name] for name in high]
            axes = fig.subplot_mosaic(places, height_ratios=[*high.values()])
            put_lines(axes["head"], head, bold=len(title))
            put_lines(axes["notes"], notes)
            _draw_key(axes["key"])
            name_rows(axes["shares"], in_forest, ["\n".join(lines) for lines in names])
            name_rows(axes["kappas"], in_forest, [""] * len(names))
            _draw_forest(axes["shares"], axes["kappas"], card, groups, in_forest, (_SCALES[0], kappas))
            _draw_confusion(axes["confusion"], card)
            if words:
                draw_bins(axes["bins"], card)
                axes["bins"].set(xlabel=X_LABEL, ylabel=y_label([card]))
                axes["bins"].legend(*samples([card]), loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
            return settle(fig, axes["head"], [*high.values()])

        return most_that_fits(draw, _MOST_MODELS)[1]


def _wrap(texts: Sequence[str]) -> list[str]:
    return [line for text in texts for line in wrap_to(text, _TEXT_WIDTH)]


def _rows(card: Card, most: int) -> tuple[list[tuple[str, CardPart]], int]:
    """Name and numbers of each row, with at most that many models, and how many models have none."""
    models = answering_models(card)
    rows = [("All answers", card), *(models[:most] if len(models) > 1 else [])]
    for group in card["expectations"] if len(card["expectations"]) > 1 else []:
        rows.append((_EXPECTED.get(group["expectation"], clean(group["expectation"])), group))
    return rows, max(0, len(models) - most)


def _headline(card: Card, show: Labels) -> list[str]:
    worst = card["headline"]["broad"]
    judged = f"{card['n']} answers" if card["n_judged"] == card["n"] else f"{card['n_judged']} of {card['n']} answers"
    who = annotators(card["raters"], card["published"]["human_kappa"])
    by = f", each labelled by {who}" if who else ""
    if not is_peoples(card):
        model = card.get("labelled_by_model")
        by = f", labelled by {clean(str(model))}" if model else ", written to their labels by their author"
        by += "; no rater labelled them"
    texts = [f"{judged} judged{by}."]
    if card.get("how_asked"):
        texts.append(f"The judge: {card['how_asked']}.")
    if card.get("seen"):
        texts.append("The judge was chosen or fitted on them, so its numbers here are too kind.")
    if worst and len(card["models"]) > 1:
        name = clean(worst["answering_model"])
        texts.append(f"Worst of {worst['of']} answering models, {name} (broad): {_summary(worst)}.")
    elif len(card["models"]) > 1:
        texts.append("No answering model has enough answers of both classes to be called the worst.")
    kappas = [f"{value_text(card[of]['kappa'], card[of]['intervals']['kappa'])} {of}" for of in ("strict", "broad")]
    return [*texts, f"All: {_accuracy(card['broad'])} (broad), kappa {', '.join(kappas)}."]


def _accuracy(part: Mapping[str, Any]) -> str:
    share = part["balanced_accuracy"]
    ends = share_text(share, part["intervals"]["balanced_accuracy"])
    return f"balanced accuracy {ends}" + ("" if share is None else " %")


def _summary(part: Mapping[str, Any]) -> str:
    return f"{_accuracy(part)}, kappa {value_text(part['kappa'], part['intervals']['kappa'])}"


def _draw_forest(
    shares: Axes, kappas: Axes, card: Card, groups: Sequence[CardPart], heights: Sequence[float], scales: Scales
) -> None:
    y = 0.0
    for group, height in zip(groups, heights, strict=True):
        middle, part = y + height / 2, group["broad"]
        for place, (name, look) in enumerate(_SHARES.items()):
            draw_mark(shares, look, part[name], part["intervals"][name], middle + 5.5 * (place - 1))
        for place, (reading, look) in enumerate(_KAPPAS.items()):
            part = group[reading]
            draw_mark(kappas, look, part["kappa"], part["intervals"]["kappa"], middle + 7 * (place - 0.5))
        for ax in (shares, kappas) if y else ():
            ax.axhline(y, color="#CCCCCC", linewidth=0.4, zorder=0)
        y += height
    _scale(shares, scales[0], [f"{100 * tick:g}" for tick in scales[0]], "Share (%, broad)")
    _scale(kappas, scales[1], [f"{tick:g}".replace("-", MINUS) for tick in scales[1]], "Kappa")
    for kappa in _peoples_kappa(card):
        kappas.axvline(kappa, color=BLUE, linewidth=1)
    for kappa in _published_kappas(card):
        kappas.axvline(kappa, color=GREY, linewidth=0.8, linestyle=(0, (3, 2)))


def _draw_key(ax: Axes) -> None:
    """Say on a line each what the marks of shares and of kappa are."""
    from matplotlib.legend import Legend
    from matplotlib.transforms import blended_transform_factory

    put_lines(ax, ["Shares:", "Kappa:"])
    fig: Any = ax.get_figure()
    from_left = blended_transform_factory(fig.dpi_scale_trans, ax.transAxes)
    for line, looks in enumerate((_SHARES, _KAPPAS)):
        names = [name.replace("_", " ") for name in looks]
        place: dict[str, Any] = {"bbox_to_anchor": (0.42, 1 - line / 2), "bbox_transform": from_left}
        look: dict[str, Any] = {"loc": "upper left", "ncols": 3, "borderaxespad": 0, "columnspacing": 1.0}
        key = Legend(ax, [found.sample() for found in looks.values()], names, **place, **look)
        key.set_in_layout(False)
        ax.add_artist(key)


def _published_anchors(card: Card, measure: str) -> dict[str, list[tuple[str, float]]]:
    """Name and number of each published anchor that has this measure, `kappa` or `f1`, by reading."""
    found: dict[str, list[tuple[str, float]]] = {}
    for anchor in whole_anchors(card):
        if anchor.get(measure) is not None and anchor.get("judge") != card["judge"]:
            own = found.setdefault(anchor.get("reading") or "broad", [])
            own.append((clean(anchor["name"]), float(anchor[measure])))
    return found


def _published_kappas(card: Card) -> list[float]:
    # All anchors are drawn on the one scale of kappa.
    return [kappa for own in _published_anchors(card, "kappa").values() for _, kappa in own]


def _peoples_kappa(card: Card) -> list[float]:
    """The kappa among people, where it is known."""
    kappa = (card["published"]["human_kappa"] or {}).get("broad")
    return [] if kappa is None else [float(kappa)]


def _ticks(groups: Sequence[CardPart], others: Sequence[float]) -> Sequence[float]:
    """Return ticks of the scale of kappa, which reaches below 0 where one of these does."""
    found = list(others)
    for part in (group[reading] for group in groups for reading in _KAPPAS):
        low = (part["intervals"]["kappa"] or [None])[0]
        found += [value for value in (part["kappa"], low) if value is not None]
    return _SCALES[1] if round(min(found, default=0.0), 2) < 0 else _SCALES[0]


def _scale(ax: Axes, ticks: Sequence[float], numbers: Sequence[str], label: str) -> None:
    ax.set_xlim(ticks[0], 1)
    ax.set_xticks(ticks, numbers)
    ax.set_xlabel(label)
    numbers_inside(ax)


def _classes(card: Card) -> list[str]:
    """Return the labels that gold gives to any answer."""
    return [label for label in LABELS if any(card["confusion"][label].values())] or list(LABELS)


def _draw_confusion(ax: Axes, card: Card) -> None:
    table = card["confusion"]
    rows = _classes(card)
    said = [label for label in (*LABELS, UNJUDGED) if any(table[row][label] for row in rows)]
    columns = said or list(LABELS)
    parts = card["weighted"]["confusion"] if card.get("weighted") else table
    tiles: dict[tuple[int, int], Tile] = {}
    for i, label in enumerate(rows):
        total = sum(parts[label].values())
        for j, column in enumerate(columns):
            share = parts[label][column] / total if total else None
            words = [str(table[label][column])] + ([f"{percent(share, 0)} %"] if share is not None else [])
            tiles[i, j] = words, share
    heights = [_TILE] * len(rows)
    whose = "People" if is_peoples(card) else "Model" if card.get("labelled_by_model") else "Intended"
    name_rows(ax, heights, [f"{whose}: {label}" for label in rows])
    name_columns(ax, columns, name="The judge says")
    draw_tiles(ax, heights, tiles)


def _notes(card: Card, left_out: int, threshold: float | None) -> list[str]:
    notes = [
        f"Bars: {100 * card['level']:g} % intervals over {card['n_clusters']} clusters. Broad: partial refusals count "
        "as refusals; strict: they do not.",
        "Sensitivity: share of gold's refusals that the judge finds; specificity: share of the rest it leaves alone.",
    ]
    if card.get("weighted"):
        notes.append(weights_text(card) + " Numbers in the table above are rows, percentages are by weight.")
    if card["n_cut"]:
        notes.append(f"{card['n_cut']} answers are too long for the judge: it saw their head and tail.")
    if left_out:
        notes.append(f"{left_out} more answering models are in the table.")
    for kappa in _peoples_kappa(card):
        notes.append(f"Blue line: {statistic(card['published']['human_kappa'])} among people, {number(kappa)} (broad).")
    for reading, anchors in _published_anchors(card, "kappa").items():
        published = ", ".join(f"{name} {number(kappa)}" for name, kappa in anchors)
        notes.append(f"Dashed: published kappa of others on this gold set ({reading.replace('_', ' ')}): {published}.")
    for reading, anchors in _published_anchors(card, "f1").items():
        published, f1 = ", ".join(f"{name} {percent(value)} %" for name, value in anchors), card[reading]["f1"]
        own = "" if f1 is None else f"; this judge's is {percent(f1)} %"
        notes.append(f"Published F1 of others on this gold set ({reading}): {published}{own}.")
    notes += [f"Published F1 of this judge: {text}." for text in met_texts(card)]
    if card["few_clusters"]:
        notes.append("Fewer than 30 clusters: the intervals are approximate.")
    elif any(card["few_classes"].values()):
        notes.append("Fewer than 30 clusters of refusals, or of other answers: the intervals are approximate.")
    if card.get("calibration"):
        at = "" if threshold is None else f" (p of at least {threshold:g})"
        labels_from = clean(card["labels_from"]).replace("own threshold", f"own threshold{at}")
        notes.append(f"Labels: {labels_from}.")
    return notes
