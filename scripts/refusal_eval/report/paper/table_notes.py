"""The notes below a table: what its numbers are means of, how far its judges can be believed, and what is marked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from refusal_eval.report.paper.display import NO_DATA, Labels, Score, annotators, clean, joined, mark_notes
from refusal_eval.report.paper.frames import NOT_MEASURED, Card, agreement_texts, is_out_of_fold, sorted_cards
from refusal_eval.stats.agreement.judge_card import MIN_ROWS
from refusal_eval.stats.estimates.scores import has_turns

READINGS_NOTE = "Readings: strict counts refusals; broad counts refusals and partial refusals."
# Behind "prompts" where scored turns of dialogues are counted.
OF_DIALOGUES = ", of dialogues scored turns"
_SCORED = {"all": "all turns", "last": "the last turn of each", "after_first": "turns after the first"}


def level_text(scores: Sequence[Score]) -> str:
    """Level of the intervals, such as "95 %"."""
    return _levels({score["interval"]["level"] for score in scores})


def cards_intervals_text(cards: Sequence[Card]) -> str:
    """Which intervals numbers of judge cards have, such as " with 95 % intervals"; empty without cards."""
    return f" with {_levels({card['level'] for card in cards})} intervals over clusters" if cards else ""


def _levels(levels: set[float]) -> str:
    return " or ".join(f"{100 * level:g} %" for level in sorted(levels))


def prompts_note(scores: Sequence[Score], splits: Sequence[str], show: Labels) -> str:
    """Prompts of each split, and turns; where some had no answer that counts, the smallest number of scored ones."""
    texts = []
    for split in splits:
        own = [score for score in scores if score["split"] == split]
        low, n = min(score["n_scored_turns"] for score in own), max(score["n_turns"] for score in own)
        inside = [f"{n} turns"] if has_turns(own) else []
        inside += [f"at least {low} scored"] if low < n else []
        prompts = max(score["n_prompts"] for score in own)
        texts.append(f"{show.split(split)} {prompts}" + (f" ({', '.join(inside)})" if inside else ""))
    return f"Prompts: {joined(texts)}."


def dialogues_notes(scores: Sequence[Score], show: Labels) -> list[str]:
    """Which turns of dialogues count, by split, as one note; none without dialogues."""
    chosen = {score["split"]: score["scored"] for score in scores if score["scored"]}
    texts = [f"{show.split(split)} {_SCORED[chosen[split]]}" for split in sorted(chosen)]
    return [f"Scored in dialogues: {joined(texts)}."] if texts else []


def common_notes(scores: Sequence[Score], cards: Iterable[Card], show: Labels) -> list[str]:
    """What every table of a judge's rates says: K, readings, interval, agreement with people, marks."""
    sizes = " or ".join(str(k) for k in sorted({score["samples"] for score in scores}))
    methods = "; ".join(sorted({score["interval"]["method"] for score in scores}))
    over = "prompts, and of dialogues over scored turns," if has_turns(scores) else "prompts"
    return [
        f"Mean over {over} of the share of refusals among K = {sizes} answers. {READINGS_NOTE}",
        *dialogues_notes(scores, show),
        f"Intervals ({level_text(scores)}): {methods}.",
        *judged_notes(scores, cards, show),
    ]


def judged_notes(scores: Sequence[Score], cards: Iterable[Card], show: Labels) -> list[str]:
    """What every table with a judge's number says: agreement with people, blocked answers, marks."""
    measured, notes = list(cards), []
    for judge in sorted({score["judge"] for score in scores}):
        texts = agreement_texts(judge, measured, show.golds)
        notes += [f"Judge {show.judge(judge)}, agreement with people on {text}." for text in texts]
        if not texts:
            notes.append(f"Judge {show.judge(judge)}, {NOT_MEASURED}.")
    if any(score["states"]["blocked"] for score in scores):
        notes.append("Answers that a provider blocked count as refusals.")
    return notes + [f"{note}." for note in mark_notes(scores)]


def gold_notes(cards: Iterable[Card], show: Labels) -> list[str]:
    """Who labelled the gold sets of judge cards, as one note; none where nobody knows."""
    known = {show.gold(card["gold"]): annotators(card["raters"]) for card in sorted_cards(cards)}
    texts = [f"{who} ({gold})" for gold, who in known.items() if who]
    return [f"Each gold answer was labelled by {joined(texts)}."] if texts else []


def labels_notes(cards: Iterable[Card], show: Labels) -> list[str]:
    """Where the labels of a card are others than the judge gives a new answer, a note: calibrated, or out of fold."""
    return [
        f"Judge {show.judge(card['judge'])} on {show.gold(card['gold'])}, labels: {clean(card['labels_from'])}."
        for card in sorted_cards(cards)
        if is_out_of_fold(card) or str(card.get("labels_from", "")).startswith(("a calibration", "nothing"))
    ]


def unshown_kappa(cells: Iterable[str]) -> str:
    """Why kappa is a dash in some of these cells, to be put behind its explanation; empty where it is nowhere."""
    if NO_DATA not in set(cells):
        return ""
    return f"; {NO_DATA} where people labelled fewer than {MIN_ROWS} answers as a class"
