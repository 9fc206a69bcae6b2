"""The tables of a study's judges: their agreement with gold, and their cards."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from refusal_eval.config.report_sections import JUDGES
from refusal_eval.core.states import LABELS
from refusal_eval.features.judge_cards.card_estimates import card_numbers
from refusal_eval.features.judge_cards.card_measures import UNJUDGED
from refusal_eval.report.paper.display import NO_DATA, Card, clean, number, order_names
from refusal_eval.report.paper.filled_notes import filled_notes
from refusal_eval.report.paper.markup import Table, move_to_notes
from refusal_eval.report.paper.table_data import TableData, TableParts
from refusal_eval.report.paper.table_kind import StudyTable
from refusal_eval.report.paper.table_notes import (
    levels_text,
    met_texts,
    of_all,
    published_texts,
    share_text,
    sorted_cards,
    unseen_parts,
    value_text,
    weights_text,
    without_convention_text,
)
from refusal_eval.stats.estimates.estimands import READINGS

if TYPE_CHECKING:
    from refusal_eval.study.study import Study

_BY = ("expectation", "answering_model", "language", "left_out", "fit")
_SHARES = ("sensitivity", "specificity", "balanced_accuracy", "f1")


def judges(data: TableData) -> TableParts:
    """Return a row per judge, gold set and reading; judges without a card are listed as not measured."""
    return judges_frame(data.cards), [move_to_notes(judges_table(data))]


def judges_table(data: TableData) -> Table:
    """Return the table of `judges`."""
    show, found, order = data.labels, sorted_cards(data.cards), data.order("judges")
    header = ["Judge", "Gold", "Reading", "Judged", "Accuracy", "Kappa", "Sensitivity", "Specificity"]
    rows = []
    for judge in order_names([*order, *(card["judge"] for card in found)], order):
        own = [(card, reading) for card in found if card["judge"] == judge for reading in READINGS]
        if not own:
            rows.append([show.judge(judge), "not measured", *[NO_DATA] * 6])
        for card, reading in own:
            part = card[reading]
            rows.append(
                [
                    *(show.judge(judge), show.gold(card["gold"]), reading, of_all(card["n_judged"], card["n"])),
                    _share_of(part, "accuracy", card["n_judged"]),
                    number(part["kappa"]),
                    _share_of(part, "sensitivity", part["n_positive"]),
                    _share_of(part, "specificity", part["n_negative"]),
                ]
            )
    kappas = [row[5] for row in rows if row[2] != NO_DATA]
    weighted = {show.gold(card["gold"]): weights_text(card) for card in found}
    notes = filled_notes(
        "judges/judges", show, cards=found, levels=levels_text(found), kappas=kappas, weighted=weighted
    )
    return Table("judges", "Agreement of the judges with gold.", header, rows, notes, keys=3, per_block=3)


def judges_frame(cards: Iterable[Card]) -> pd.DataFrame:
    """Return a row per judge, gold set and reading: agreement with gold, its intervals and the confusion table."""
    rows = []
    for card in sorted_cards(cards):
        for reading in READINGS:
            part = card[reading]
            row = {"judge": card["judge"], "gold": card["gold"], "reading": reading}
            row |= {key: card[key] for key in ("n", "n_judged", "coverage", "raters")}
            row |= _doubts(card)
            row |= {key: part[key] for key in ("n_positive", "n_negative", "kappa")}
            for name in ("accuracy", "sensitivity", "specificity"):
                low, high = _ends(part, name)
                row |= {name: part[name], f"{name}_low": low, f"{name}_high": high}
            confusion = card["confusion"]
            row |= {f"gold_{h}_judge_{m}": confusion[h][m] for h in LABELS for m in (*LABELS, UNJUDGED)}
            rows.append(row)
    return pd.DataFrame(rows, dtype=object)


def _doubts(card: Card) -> dict[str, Any]:
    """Return the reasons to distrust a card: labels that are not people's, or seen when the judge was chosen."""
    whose = {"written_to_label": bool(card.get("written_to_label")), "labelled_by_model": card.get("labelled_by_model")}
    return whose | {"seen_gold": bool(card.get("seen"))}


def _ends(part: Mapping[str, Any], name: str) -> Sequence[float | None]:
    """Return the interval of a share on one reading of a judge card, (None, None) if it has none."""
    return (part.get("intervals") or {}).get(name) or (None, None)


def _share_of(part: Mapping[str, Any], name: str, n: int) -> str:
    return NO_DATA if part[name] is None else f"{share_text(part[name], _ends(part, name))} (n = {n})"


def judge_cards(data: TableData) -> TableParts:
    """Return every measure of every card as CSV; of the broad reading a row per judge and gold set, for all answers,
    then one per answering model, the worst first."""
    return cards_frame(data.cards), [move_to_notes(cards_table(data))]


def cards_frame(cards: Iterable[Card]) -> pd.DataFrame:
    """Return a row per judge, gold set, group of answers, reading (or three_class) and measure: interval and n.

    A group is named by `expectation`, `answering_model` and `language` (empty for all), and by what it leaves out,
    `left_out` (`convention`: the rows whose label is one, see `judge_card`); `fit` says what the fits had not seen that
    judged it, where a card has several such rows. Measures of probabilities have the reading `broad`, coverage none.
    """
    rows: list[dict[str, Any]] = []
    for card in sorted_cards(cards):
        for group in _groups(card):
            names = {"judge": card["judge"], "gold": card["gold"], "labels_from": card.get("labels_from")}
            names |= _doubts(card) | {name: group.get(name) for name in _BY}
            for reading, measure, value, ends, n in card_numbers(group):
                low, high = ends or (None, None)
                numbers = {"reading": reading, "measure": measure, "value": value, "low": low, "high": high, "n": n}
                rows.append(names | numbers)
    columns = ["judge", "gold", "labels_from", "written_to_label", "labelled_by_model", "seen_gold", *_BY]
    columns += ["reading", "measure", "value", "low", "high", "n"]
    return pd.DataFrame(rows, columns=columns, dtype=object)


def cards_table(data: TableData) -> Table:
    """Return the table of `judge_cards`."""
    show, found, rows = data.labels, data.cards, []
    for judge in order_names((card["judge"] for card in found), data.order("judges")):
        for card in sorted_cards(c for c in found if c["judge"] == judge):
            names = [show.judge(judge), show.gold(card["gold"])]
            whole = [(f"all, {how}", part) for how, part in unseen_parts(card)] or [("all", card)]
            rows += [[*names, text, *_numbers(part)] for text, part in whole]
            rows += [[*names, model, *_numbers(group)] for model, group in answering_models(card)]
    header = ["Judge", "Gold", "Answering model", "Judged", "Sensitivity", "Specificity", "Balanced\naccuracy", "F1"]
    header.append("Kappa")
    some_worst = any(card["models"] and card["headline"]["broad"] for card in found)
    by_gold = sorted(found, key=lambda card: str(card["gold"]))
    notes = filled_notes(
        "judge_cards/judge_cards",
        show,
        cards=found,
        levels=levels_text(found),
        asked={card["judge"]: card["how_asked"] for card in sorted_cards(found) if card.get("how_asked")},
        worst=some_worst and found[0]["headline"]["rule"],
        kappas=[row[-1] for row in rows],
        weighted={show.gold(card["gold"]): weights_text(card) for card in by_gold},
        kept=[(card, text) for card in sorted_cards(found) if (text := without_convention_text(card))],
        met=[(card, text) for card in sorted_cards(found) for text in met_texts(card)],
        published=dict.fromkeys(
            f"Published on {show.gold(card['gold'])}: {text}." for card in by_gold for text in published_texts(card)
        ),
    )
    return Table("judge-cards", "Judges compared with gold.", header, rows, notes, keys=3, per_block=3)


def answering_models(card: Card) -> list[tuple[str, Card]]:
    """Return name and numbers of each answering model of a card, the worst first."""
    worst = (card["headline"]["broad"] or {}).get("answering_model")
    groups = sorted(card["models"], key=lambda g: (g["answering_model"] != worst, g["answering_model"]))
    return [(clean(g["answering_model"]) + " (worst)" * (g["answering_model"] == worst), g) for g in groups]


def _groups(card: Card) -> Iterator[Mapping[str, Any]]:
    yield card
    for by in ("models", "expectations", "languages", "strata"):
        yield from card[by]
    if kept := card["without_convention"]:
        yield kept | {"left_out": "convention"}
    yield from ({**part, "fit": how} for how, part in unseen_parts(card))


def _numbers(group: Mapping[str, Any]) -> list[str]:
    part = group["broad"]
    shares = [share_text(part[name], part["intervals"][name]) for name in _SHARES]
    return [of_all(group["n_judged"], group["n"]), *shares, value_text(part["kappa"], part["intervals"]["kappa"])]


class JudgesTable(StudyTable):
    """Agreement of the judges with gold."""

    name = "judges"
    needs = ("cards",)
    shows = ("judges", "gold")
    report = (JUDGES, "Agreement with gold")
    make = staticmethod(judges)


class JudgeCardsTable(StudyTable):
    """The cards of all judges."""

    name = "judge_cards"
    needs = ("cards",)
    shows = ("judges", "gold")
    report = (JUDGES, "Every measure of each judge")
    make = staticmethod(judge_cards)

    @classmethod
    def wanted(cls, study: "Study") -> bool:
        return bool(study.gold)
