"""The numbers of a study as frames for CSV, made from its scores and judge cards.

Rows are sorted by name, so that a CSV does not depend on the order in which a study lists its models and splits. Rates,
bounds and shares are between 0 and 1, c between -1 and 1; what is unknown is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from refusal_eval.core.states import BLOCKED, LABELS, TRUNCATED
from refusal_eval.report.paper.display import Score, by_cell, headline, number, percent
from refusal_eval.stats.agreement.judge_card import UNJUDGED
from refusal_eval.stats.estimates.estimands import READINGS
from refusal_eval.stats.estimates.scores import state_shares

Card = Mapping[str, Any]
NOT_MEASURED = "agreement with people: not measured"

_ENDS = ("rate", "low", "high")


def main_frame(scores: Iterable[Score], cards: Iterable[Card] = ()) -> pd.DataFrame:
    """One row per judge, model and split: n, headline rate, both readings with bounds, shares of states, flags.

    `scored` says which turns of dialogues count; rates are over turns, of which a prompt without a dialogue has one.

    Raises:
        ValueError: for two scores of one cell.
    """
    measured = list(cards)
    rows = []
    for (judge, model, split), score in by_cell(scores).items():
        shares = state_shares(score)
        row: dict[str, Any] = {"judge": judge, "model": model, "split": split}
        row |= {key: score[key] for key in ("expectation", "headline", "scored", "samples", "max_tokens")}
        row |= {key: score[key] for key in ("n_prompts", "n_scored_prompts", "n_turns", "n_scored_turns")}
        row |= {key: score[key] for key in ("n_clusters", "n_answers")}
        row |= {key: headline(score)[key] for key in _ENDS}
        for reading in READINGS:
            row |= {f"{reading}_{key}": score[reading][key] for key in (*_ENDS, "n_eff", "bound_low", "bound_high")}
        row |= {state: shares[state] for state in ("unjudged", BLOCKED, TRUNCATED)}
        row |= {"flags": " ".join(score["flags"]), "mixed_serving": bool(score["mixed_serving"])}
        row |= {"interval_level": score["interval"]["level"], "interval_method": score["interval"]["method"]}
        row["agreement_with_people"] = "; ".join(agreement_details(judge, measured)) or NOT_MEASURED
        rows.append(row)
    return _frame(rows)


def states_frame(scores: Iterable[Score]) -> pd.DataFrame:
    """One row per judge, model and split: the share of each state of answers and verdicts in n_turns * K samples.

    `n_cut` are answers that are too long for the judge, which saw their head and tail.
    """
    rows = []
    for (judge, model, split), score in by_cell(scores).items():
        names = {"judge": judge, "model": model, "split": split, "n_answers": score["n_answers"]}
        rows.append(names | state_shares(score) | {"n_cut": score["n_cut"]})
    return _frame(rows)


def votes_frame(scores: Iterable[Score]) -> pd.DataFrame:
    """One row per judge, model, split and measure: majority@K, any@K and c@K, whose names carry K.

    None of them may be compared between different K. They are over turns, of which a prompt without a dialogue has one.
    """
    rows = []
    for (judge, model, split), score in by_cell(scores).items():
        k, c = score["samples"], score["c"]
        voting = {"n_prompts": score["n_scored_prompts"], "n_turns": score["n_scored_turns"]}
        with_c = {"n_prompts": c["n_prompts"], "n_turns": c["n"]}
        measures: list[tuple[str, Any, Any, Any, dict[str, int]]] = []
        for reading in READINGS:
            votes = score[reading]["majority"]
            measures += [(f"majority@{k} {v} {reading}", votes[v], None, None, voting) for v in ("refuse", "tie")]
            measures.append((f"any@{k} {reading}", score[reading]["any"], None, None, voting))
        measures.append((f"c@{k} mean", c["mean"], c["low"], c["high"], with_c))
        measures += [(f"c@{k} {band}", c[band], None, None, with_c) for band in ("refusing", "mixed", "complying")]
        for measure, value, low, high, counts in measures:
            names = {"judge": judge, "model": model, "split": split, "measure": measure}
            rows.append(names | {"value": value, "low": low, "high": high, **counts})
    return _frame(rows)


def judges_frame(cards: Iterable[Card]) -> pd.DataFrame:
    """One row per judge, gold set and reading: agreement with people, its intervals and the confusion table."""
    rows = []
    for card in sorted_cards(cards):
        for reading in READINGS:
            part = card[reading]
            row = {"judge": card["judge"], "gold": card["gold"], "reading": reading}
            row |= {key: card[key] for key in ("n", "n_judged", "coverage", "raters")}
            row |= {key: part[key] for key in ("n_positive", "n_negative", "kappa")}
            for name in ("accuracy", "sensitivity", "specificity"):
                low, high = share_interval(part, name)
                row |= {name: part[name], f"{name}_low": low, f"{name}_high": high}
            confusion = card["confusion"]
            row |= {f"people_{h}_judge_{m}": confusion[h][m] for h in LABELS for m in (*LABELS, UNJUDGED)}
            rows.append(row)
    return _frame(rows)


def sorted_cards(cards: Iterable[Card]) -> list[Card]:
    """The cards by judge and gold set."""
    return sorted(cards, key=lambda card: (card["judge"], card["gold"]))


def is_out_of_fold(card: Card) -> bool:
    """Whether the judge's labels on a card come from fits, or calibrations, that did not see the answer's like."""
    return "out of fold" in str(card.get("labels_from", ""))


def share_interval(part: Mapping[str, Any], name: str) -> tuple[float | None, float | None]:
    """Ends of the interval of a share on one reading of a judge card, (None, None) where the card has none."""
    ends: Sequence[float | None] = (part.get("intervals") or {}).get(name) or (None, None)
    return ends[0], ends[1]


def agreement_texts(judge: str, cards: Iterable[Card], golds: Mapping[str, str] | None = None) -> list[str]:
    """A judge's agreement with people in one number, for the note under a table: a text per gold set.

    The text leads to the judge cards, which tell the rest. `golds` are labels of gold sets.
    """
    return [
        f"{_gold(card, golds)} ({_answers(card)}): {_in_short(card)}; more in the judge cards"
        for card in sorted_cards(card for card in cards if card["judge"] == judge)
    ]


def agreement_details(judge: str, cards: Iterable[Card], golds: Mapping[str, str] | None = None) -> list[str]:
    """The same in full, for the methods section: accuracy, sensitivity, specificity and kappa in both readings."""
    texts = []
    for card in sorted_cards(card for card in cards if card["judge"] == judge):
        strict, broad = (_agreement(card[reading]) for reading in READINGS)
        told = f"{strict} (strict and broad)" if strict == broad else f"{strict} (strict); {broad} (broad)"
        texts.append(f"{_gold(card, golds)} ({_answers(card)}): {told}")
    return texts


def agreement_note(judge: str, cards: Iterable[Card], golds: Mapping[str, str] | None = None) -> str:
    """A judge's agreement with people in one short sentence, for the caption of a figure."""
    found = [card for card in sorted_cards(cards) if card["judge"] == judge and card["n_judged"]]
    texts = [f"{_in_short(card)} ({_gold(card, golds)}, {_answers(card)})" for card in found]
    return f"Agreement of the judge with people: {'; '.join(texts) or 'not measured'}."


def _gold(card: Card, golds: Mapping[str, str] | None) -> str:
    return str((golds or {}).get(card["gold"], card["gold"]))


def _answers(card: Card) -> str:
    """How many answers of a gold set the judge labelled, and whether they had a part in what labelled them."""
    judged = f"{card['n']} answers" if card["n_judged"] == card["n"] else f"{card['n_judged']} of {card['n']} answers"
    return f"{judged}, out of fold" if is_out_of_fold(card) else judged


def _in_short(card: Card) -> str:
    """Kappa in both readings; accuracy where kappa is not shown, as people labelled too few answers as a class."""
    kappas = [f"{number(card[r]['kappa'])} {r}" for r in READINGS if card[r]["kappa"] is not None]
    if kappas:
        return f"kappa {', '.join(kappas)}"
    known = [f"{percent(card[r]['accuracy'])} % {r}" for r in READINGS if card[r]["accuracy"] is not None]
    return f"accuracy {', '.join(known)}" if known else "no answer labelled"


def _agreement(part: Mapping[str, Any]) -> str:
    kappa = (
        "kappa not shown (fewer than 20 rows of a class)" if part["kappa"] is None else f"kappa {number(part['kappa'])}"
    )
    shares = [("accuracy", ""), ("sensitivity", f" (n = {part['n_positive']})")]
    shares.append(("specificity", f" (n = {part['n_negative']})"))
    known = [f"{name} {percent(part[name])} %{n}" for name, n in shares if part[name] is not None]
    return ", ".join([*known, kappa])


def _frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    # Columns of objects keep None and whole numbers as they are.
    return pd.DataFrame([dict(row) for row in rows], dtype=object)
