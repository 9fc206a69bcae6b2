"""Scores, cards and tables for the tests of tables: a word per prompt makes a cell."""

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd
from estimate_rows import score_in, score_of_rows, units_in

from refusal_eval.features.judge_cards.judge_card import judge_card
from refusal_eval.features.rates import category_tables, rate_tables
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_data import TableData
from refusal_eval.stats.estimates.units import Units

LETTERS = {"R": "refusal", "P": "partial", "C": "compliance"}


def score(*cell: Any, **more: Any) -> dict[str, Any]:
    """A cell as tables show it."""
    return score_in(units(*cell, **more))


def units(judge: str, model: str, split: str, expectation: str, words: list[str], **more: Any) -> Units:
    """A cell with a word per prompt: R, P, C labels, B blocked, T truncated refusal, F failed."""
    prompts, answers, verdicts = [], [], []
    for number, word in enumerate(words):
        name = f"p{number:03d}"
        prompts.append({"id": name, "category": None, "cluster": name})
        for sample, letter in enumerate(word):
            state = {"B": "blocked", "F": "failed", "T": "truncated"}.get(letter, "complete")
            key = {"prompt_id": name, "sample": sample, "turn": 0}
            answers.append(
                key | {"state": state, "answer_logprob": -1.0, "serving": more.get("serving", "a") or letter}
            )
            if letter in "RPCT":
                label = LETTERS.get(letter, "refusal")
                verdicts.append(key | {"state": "judged", "label": label})
    k = len(words[0])
    names: dict[str, Any] = {"judge": judge, "model": model, "split": split, "expectation": expectation}
    return units_in(prompts, answers, verdicts, k, **names, max_tokens=64)


def study() -> list[dict[str, Any]]:
    return [score_in(own) for own in cells()]


def cells() -> list[Units]:
    return [
        units("rules", "m1", "safe", "comply", ["CC"] * 36 + ["PC"] * 4),  # broad 4 * 0.5 / 40 = 5 %
        units("rules", "m1", "unsafe", "refuse", ["RR"] * 30 + ["PP"] * 10),  # strict 75 %
        units("rules", "m2", "safe", "comply", ["CC"] * 8 + ["FF"] * 2),  # unjudged 20 %, 8 clusters
        units("rules", "m2", "unsafe", "refuse", ["TR"] * 30 + ["BC"] * 10, serving=None),
        units("llm", "m1", "safe", "comply", ["CC"] * 40),
    ]


def talks(scored: str | None = "all") -> dict[str, Any]:
    """Score of two dialogues of two turns, the second of which ends early, K = 1."""
    chats, answers, verdicts = [], [], []
    for name, states in (("a", ("complete", "complete")), ("b", ("empty", "failed"))):
        messages = [{"role": "user", "content": "?"}] * 2
        chats.append({"id": name, "category": None, "cluster": name, "dialogue": True, "messages": messages})
        for turn, state in enumerate(states):
            key = {"prompt_id": name, "sample": 0, "turn": turn}
            answers.append(key | {"state": state, "answer_logprob": -1.0, "serving": "a"})
            if state == "complete":
                verdicts.append(key | {"state": "judged", "label": "refusal" if turn else "compliance"})
    names: dict[str, Any] = {"judge": "rules", "model": "m1", "split": "talks", "expectation": "refuse"}
    return score_of_rows(chats, answers, verdicts, 1, **names, max_tokens=64, scored=scored)


def cards() -> list[dict[str, Any]]:
    gold = [{"id": f"g{i}", "label": "refusal" if i < 25 else "compliance", "cluster": f"g{i}"} for i in range(50)]
    verdicts = [
        {
            "prompt_id": row["id"],
            "sample": 0,
            "turn": 0,
            "state": "judged",
            "label": "refusal" if i < 20 else "compliance",
        }
        for i, row in enumerate(gold)
    ]
    return [judge_card(gold, verdicts, judge="rules", gold="pyrit", raters=1)]


class Given(TableData):
    """What a table is made of, without files."""

    def found(self, noun: str, *keys: str) -> Any:
        return vars(self)["given"][noun]


def data_of(
    asked: Mapping[str, Any] | None = None,
    cards: Iterable[Any] = (),
    scores: Iterable[Any] = (),
    results: Iterable[Any] = (),
    **found: Any,
) -> TableData:
    """What a table is made of, without files; `found` is what analyses found, by their names."""
    data = Given({"labels": {}} | dict(asked or {}))
    data.cards, data.scores, data.results = list(cards), list(scores), list(results)
    vars(data)["given"] = found
    return data


OF_PRIMARY = (rate_tables.refusal, category_tables.categories)


def made(kind: Any, scores: Iterable[Any], cards: Any = (), results: Any = (), **asked: Any) -> tuple[Any, Table]:
    """Return the frame of a kind of table, and its first table; the primary judge is `rules` unless it is said."""
    data = TableData({"labels": {}, "primary_judge": "rules", "tau": 1.0} | asked, {"scores": ["s"], "cards": ["c"]})
    judge = data.asked["primary_judge"]
    data.scores = [score for score in scores if kind not in OF_PRIMARY or score["judge"] == judge]
    data.cards, data.results = list(cards), list(results)
    data.estimates = data.results
    frame, tables = kind(data)
    return frame, tables[0]


def table_of(kind: Any, scores: Iterable[Any], cards: Any = (), results: Any = (), **asked: Any) -> Table:
    """Return the table of a kind."""
    return made(kind, scores, cards, results, **asked)[1]


def frame_of(kind: Any, scores: Iterable[Any], cards: Any = (), **asked: Any) -> pd.DataFrame:
    """Return the frame of a kind of table."""
    return made(kind, scores, cards, **asked)[0]
