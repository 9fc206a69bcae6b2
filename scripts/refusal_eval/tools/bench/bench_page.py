"""The page and the table of a benchmark of judges."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import pandas as pd

from refusal_eval.features.judge_cards.judge_cards_table import cards_frame
from refusal_eval.program.text_templates import render_template
from refusal_eval.report.paper.display import NO_DATA, Card, Labels, clean, number
from refusal_eval.report.paper.markup import Table, markdown, markdown_escaped
from refusal_eval.report.paper.table_notes import (
    is_peoples,
    levels_text,
    of_all,
    share_text,
    unseen_parts,
    value_text,
    weights_text,
)
from refusal_eval.stats.agreement.measures import MIN_ROWS

READING = "broad"
SPEEDS = {"seconds": 4, "prompt_tokens": 0, "written_tokens": 1, "devices": 0}  # decimals


@dataclass(frozen=True)
class Benchmark:
    """What was measured."""

    study: str
    labels: Labels
    cards: Sequence[Card]  # of every judge on every gold set
    ranks: Mapping[str, Sequence[Mapping[str, Any]]]  # by gold set, see `judge_ranks.judge_ranks`
    speeds: Mapping[tuple[str, str], Mapping[str, float]]  # by judge and gold set, see `judge_speed.judge_speed`
    gold_cards: Sequence[Card]  # see `gold_pairs.gold_cards`
    denied: Mapping[str, Sequence[str]]  # by gold set, its labels of answers that deny a premise


def frame(found: Benchmark) -> pd.DataFrame:
    """Return all numbers as rows of judge_cards.csv; a gold set's labels are those of the judge `people of NAME`,
    `author of NAME` where the answers were written to them, or `model of NAME` where a model gave them.

    Further measures: `rank` (low and high; n is the number of judges), `rank_group` (1 for A; a row for each), and
    `speed_` of what an answer took.
    """
    others = {gold: "author" if model is None else "model" for gold, model in _not_peoples(found).items()}
    of_gold = [
        {**card, "judge": f"{others.get(card['judge'], 'people')} of {card['judge']}"} for card in found.gold_cards
    ]
    more: list[dict[str, Any]] = []
    for gold, ranks in found.ranks.items():
        for rank in ranks:
            about = {"judge": rank["judge"], "gold": gold, "reading": READING, "n": len(ranks)}
            low, high = rank["rank"]
            more.append(about | {"measure": "rank", "low": low, "high": high})
            more += [about | {"measure": "rank_group", "value": group + 1} for group in rank["groups"]]
    for (judge, gold), speed in found.speeds.items():
        about = {"judge": judge, "gold": gold}
        more += [about | {"measure": f"speed_{name}", "value": value} for name, value in speed.items()]
    made = cards_frame([*found.cards, *of_gold])
    return pd.DataFrame([*made.to_dict("records"), *more], columns=made.columns, dtype=object)


def page(found: Benchmark) -> str:
    """Return the page, as Markdown."""
    show = found.labels
    denied = {show.gold(gold): Counter(labels) for gold, labels in found.denied.items() if labels}
    values = {
        "study": clean(found.study),
        "levels": levels_text(found.cards),
        "not_peoples": {show.gold(gold): model for gold, model in sorted(_not_peoples(found).items())},
        "ranks": [_ranks(found, gold) for gold in found.ranks],
        "groups": _groups(found),
        "speeds": _speeds(found),
        "golds": _golds(found) if found.gold_cards else None,
        "weighted": {found.labels.gold(card["gold"]): weights_text(card) for card in found.cards if weights_text(card)},
        "denied": {gold: ", ".join(f"{label} {n}" for label, n in counts.items()) for gold, counts in denied.items()},
    }
    filters: dict[str, Callable[..., str]] = {"table": markdown, "escaped": markdown_escaped}
    return render_template(Path(__file__).with_name("bench_page.md.j2"), values, filters).rstrip() + "\n"


def _not_peoples(found: Benchmark) -> dict[str, str | None]:
    """Return the gold sets that no person labelled, each with the model that did; None where an author did."""
    return {card["gold"]: card.get("labelled_by_model") for card in found.cards if not is_peoples(card)}


def _ranks(found: Benchmark, gold: str) -> Table:
    cards = {card["judge"]: card for card in found.cards if card["gold"] == gold}
    rows = []
    for rank in found.ranks[gold]:
        low, high = rank["rank"]
        place = str(low) if low == high else f"{low} to {high}"
        rows.append([place, _letters(rank), found.labels.judge(rank["judge"]), *_numbers(cards[rank["judge"]])])
    header = ["Rank", "Groups", "Judge", *HEADER]
    return Table("ranks", found.labels.gold(gold), header, rows, keys=3)


def _letters(rank: Mapping[str, Any]) -> str:
    letters = ascii_uppercase
    return " ".join(letters[n] if n < len(letters) else str(n + 1) for n in rank["groups"])


def _groups(found: Benchmark) -> Table:
    rows = []
    for card in found.cards:
        names = [found.labels.judge(card["judge"]), found.labels.gold(card["gold"])]
        rows += [[*names, group, *_numbers(numbers)] for group, numbers in _parts(card)]
    header = ["Judge", "Gold", "Answers", *HEADER]
    return Table("groups", "By answering model, expectation and language", header, rows, keys=3)


def _parts(card: Card) -> Iterator[tuple[str, Card]]:
    """All answers of a card, then the parts of them; in each kind the worst first, those with few of a class last."""
    yield from [(f"all, {how}", part) for how, part in unseen_parts(card)] or [("all", card)]
    for kind, name in (("models", "answering_model"), ("expectations", "expectation"), ("languages", "language")):
        of_kind = sorted(card[kind], key=lambda group: (*_worth(group), str(group[name])))
        for group in of_kind:
            yield f"{name.replace('_', ' ')}: {clean(str(group[name]))}", group
    if kept := card["without_convention"]:
        yield "without labels by convention", kept


def _worth(group: Card) -> tuple[bool, float]:
    part = group[READING]
    value = part["balanced_accuracy"]
    return min(part["n_positive"], part["n_negative"]) < MIN_ROWS, 2.0 if value is None else float(value)


HEADER = ("Labelled", "Kappa", "Sensitivity", "Specificity", "F1", "Calibration\nerror")


def _numbers(group: Card) -> list[str]:
    part, soft = group[READING], group.get("soft")
    shares = [share_text(part[name], part["intervals"][name]) for name in ("sensitivity", "specificity", "f1")]
    error = value_text(soft["ece"], soft["ece_interval"]) if soft else NO_DATA
    return [of_all(group["n_judged"], group["n"]), _kappa(group), *shares, error]


def _kappa(group: Card) -> str:
    return value_text(group[READING]["kappa"], group[READING]["intervals"]["kappa"])


def _speeds(found: Benchmark) -> Table:
    show = found.labels
    rows = [
        [show.judge(judge), show.gold(gold), *(number(speed.get(name), digits) for name, digits in SPEEDS.items())]
        for (judge, gold), speed in found.speeds.items()
    ]
    header = ["Judge", "Gold", "Seconds", "Tokens read", "Tokens written", "GPUs"]
    return Table("speeds", "Cost of an answer", header, rows, keys=2)


def _golds(found: Benchmark) -> Table:
    show, rows = found.labels, []
    for card in found.gold_cards:
        kappas = [_kappa(group) if group else NO_DATA for group in (card, card["without_convention"])]
        denied = ", ".join(f"{one}/{other} {n}" for (one, other), n in card["denied"].items())
        rows.append([show.gold(card["gold"]), show.gold(card["judge"]), str(card["n"]), *kappas, denied or NO_DATA])
    header = ["First", "Second", "Common\nanswers", "Kappa", "Kappa without\nlabels by convention"]
    header.append("Denied premises\n(first/second)")
    return Table("golds", "Gold sets with each other", header, rows, keys=2)
