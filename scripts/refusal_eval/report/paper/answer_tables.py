"""The table of what can be said of answers without a judge: what steering costs."""

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from refusal_eval.core.states import EMPTY, TRUNCATED, TRUNCATED_REASONING
from refusal_eval.report.paper.display import NO_DATA, Score, by_cell, marked, ordered, percent
from refusal_eval.report.paper.filled_notes import filled_notes
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.rate_tables import cell_rate_text
from refusal_eval.report.paper.table_data import Made, TableData
from refusal_eval.report.paper.table_notes import rate_text, value_text
from refusal_eval.report.results.cells import state_shares

_CUT = (TRUNCATED, TRUNCATED_REASONING)


def answers(data: TableData) -> Made:
    """Return a row per split and model: refusal rate, log-probability, length, what went wrong, right answers.

    Models of one split stand below each other, so that a steered one stands by the model that it is and its control.
    """
    cells = {(score["split"], score["model"]): score for score in by_cell(data.scores).values()}
    splits, models = (ordered({cell[i] for cell in cells}, data.order(n)) for i, n in enumerate(("splits", "models")))
    found = [cells[split, model] for split in splits for model in models if (split, model) in cells]
    with_right = any(score["answers"]["right"] for score in found)
    header = ["Split", "Model", "Refusal rate", "Log-probability", "Tokens", "Cut", "Empty", "Loops"]
    rows = []
    for score in found:
        shares, of = state_shares(score), score["answers"]
        row = [data.labels.split(score["split"]), data.labels.model(score["model"]), cell_rate_text(score)]
        more = [_mean(of["logprob"], 2), _mean(of["tokens"], 0)]
        more += [percent(sum(shares[state] for state in _CUT)), percent(shares[EMPTY]), rate_text(of["loops"])]
        more += [rate_text(of["right"])] if with_right else []
        rows.append([*row, *(marked(text, score["flags"]) for text in more)])
    notes = filled_notes("answers/answers", data.labels, scores=found, cards=data.cards, with_right=with_right)
    header += ["Right"] if with_right else []
    align = "ll" + "r" * (len(header) - 2)
    table = Table("answers", "Answers, and what steering costs.", header, rows, notes, 2, per_block=7, align=align)
    return pd.DataFrame(list(_rows(found)), dtype=object), [table]


def _rows(scores: Iterable[Score]) -> Iterable[dict[str, Any]]:
    for score in scores:
        row = {name: score[name] for name in ("judge", "split", "model", "samples", "n_prompts", "n_clusters")}
        for name, number in score["answers"].items():
            ends = number or {"value": None, "low": None, "high": None}
            row |= {name: ends["value"], f"{name}_low": ends["low"], f"{name}_high": ends["high"]}
        shares = state_shares(score)
        yield row | {state: shares[state] for state in (*_CUT, EMPTY)} | {"flags": " ".join(score["flags"])}


def _mean(number: Mapping[str, Any] | None, digits: int) -> str:
    return NO_DATA if number is None else value_text(number["value"], (number["low"], number["high"]), digits)
