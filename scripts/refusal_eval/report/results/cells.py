"""The cells of a study as tables, captions and the methods section show them, out of the results table.

Nothing is computed here: a cell is the rows of the results table about one judge, model and split.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from refusal_eval.report.paper.display import Score
from refusal_eval.core.states import ANSWER_STATES, BLOCKED, VERDICT_STATES
from refusal_eval.report.results.results_files import text_of
from refusal_eval.stats.estimates.cell_estimates import INTERVAL_METHOD, REASON
from refusal_eval.stats.estimates.estimands import MISSING, READINGS
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.flags import MIXED_SERVING
from refusal_eval.stats.estimates.model_alone import of_model_alone

# What is known of the answers of a cell without a judge, by the name in a score.
ANSWERS = {"logprob": "answer_logprob", "tokens": "answer_tokens", "loops": "answer_loops", "right": "accuracy"}
CellName = tuple[str, str, str]  # judge, model, split


def cell_scores(results: Iterable[Estimate], study: Mapping[str, Any]) -> list[Score]:
    """Return what is known of each cell, sorted by judge, model and split.

    judge, model, split, samples; of the study `expectation`, `headline` (the reading of its headline rate), `scored`
    (which turns count, None where each prompt has one), `max_tokens`, `level` and `protocol`;
    n_prompts, n_scored_prompts     prompts, and those with an answer that counts
    n_turns, n_scored_turns         the same of scored turns; an ordinary prompt has one
    n_clusters, n_answers, n_cut    clusters; answers asked for, and those of which the judge saw head and tail only
    states, verdict_states          number of answers in each state, and of verdicts
    strict, broad                   `rate`, its ends `low` and `high`, `n_eff`, `bound_low` and `bound_high`, `majority`
                                    (shares of prompts: refuse, tie), `any`, and the `flags` of the rate
    c                               `mean` of c(x), `low`, `high`, shares of the bands, `positive` (share above 0, with
                                    `value`, `low`, `high` and `flags`), `n` and `n_prompts` that have one
    answers                         `logprob` and `tokens` (means), `loops` and `right` (shares), each `value`, `low`,
                                    `high` and `flags`; `right` None in a split without right answers
    flags, mixed_serving            marks of the cell; whether hardware, software or model version of its answers differ
    state_flags                     marks of the shares of its states
    reasons                         number of failed answers by the reason that the server gave, where it gave any
    alone                           of the model alone, where the study has that: `strict` and `broad` with `rate`, its ends,
                                    bounds and `flags`, and `n_prompts` (turns) that have such a rate

    Rates and shares are between 0 and 1, c between -1 and 1; a number that the data cannot give is None.

    Args:
        results: the results table, or the rows of it about these cells.
        study: `level`, `tau`, `protocol`; `splits` (each `name`, `expectation`, `reading` and `scored`) and
            `max_tokens` by model. Cells of other splits are left out.
    """
    splits = {split["name"]: split for split in study["splits"]}
    found: dict[CellName, dict[tuple[str, str | None, str], Estimate]] = defaultdict(dict)
    for row in results:
        if row.judge and row.model and row.split and row.split in splits and row.category is None:
            found[row.judge, row.model, row.split][row.estimand, row.reading, text_of(row.parameter)] = row
    cells = {name: rows for name, rows in sorted(found.items()) if ("unjudged", None, "") in rows}
    return [_cell(name, rows, splits[name[2]], study) for name, rows in cells.items()]


def _cell(
    name: CellName, rows: Mapping[Any, Estimate], split: Mapping[str, Any], study: Mapping[str, Any]
) -> dict[str, Any]:
    def value(estimand: str, reading: str | None = None, parameter: object = None) -> float | None:
        row = rows.get((estimand, reading, text_of(parameter)))
        return None if row is None else row.value

    every = rows["unjudged", None, ""]
    k, turns = every.samples or 0, every.n_prompts or 0
    n_answers = turns * k
    rate, headline = (rows["refusal_rate", reading, ""] for reading in ("strict", split["reading"]))

    def number(estimand: str, parameter: object = None) -> int:
        return round((value(estimand, None, parameter) or 0.0) * n_answers)

    return {
        **dict(zip(("judge", "model", "split"), name, strict=True)),
        **{"expectation": split["expectation"], "headline": split["reading"], "scored": split.get("scored")},
        **{"samples": k, "max_tokens": study.get("max_tokens", {}).get(name[1]), "protocol": study["protocol"]},
        "n_prompts": int(value("prompts") or 0),
        "n_scored_prompts": int(value("prompts", None, "scored") or 0),
        **{"n_turns": turns, "n_scored_turns": rate.n_prompts or 0, "n_clusters": rate.n_clusters or 0},
        **{"n_answers": n_answers, "n_cut": number("answer_cut_for_judge")},
        "states": {state: number("answer_state", state) for state in sorted(ANSWER_STATES)},
        "verdict_states": {state: number("verdict_state", state) for state in sorted((*VERDICT_STATES, MISSING))},
        **{reading: _reading(rows, reading, k, value) for reading in READINGS},
        "c": _c(rows, text_of(study["tau"]), value),
        "answers": {name: _ends(rows.get((estimand, None, ""))) for name, estimand in ANSWERS.items()},
        **{"flags": list(headline.flags), "mixed_serving": MIXED_SERVING in headline.flags},
        "state_flags": list(every.flags),
        **_of_providers(rows, n_answers),
        "interval": {"level": study["level"], "method": INTERVAL_METHOD},
    }


def _of_providers(rows: Mapping[Any, Estimate], n_answers: int) -> dict[str, Any]:
    """What only cells of other parties' servers have: reasons of failures, and the rates of the model alone."""
    found: dict[str, Any] = {}
    reasons = {str(key[2]): round((row.value or 0.0) * n_answers) for key, row in rows.items() if key[0] == REASON}
    if reasons:
        found["reasons"] = dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0])))
    alone = {(row.estimand, row.reading, text_of(row.parameter)): row for row in of_model_alone(rows.values())}
    if alone:
        found["alone"] = {reading: _rate(alone, reading) for reading in READINGS}
        found["alone"]["n_prompts"] = alone["refusal_rate", READINGS[0], ""].n_prompts or 0
    return found


def _rate(rows: Mapping[Any, Estimate], reading: str) -> dict[str, Any]:
    rate = rows["refusal_rate", reading, ""]
    at_least, at_most, answers = (
        rows.get((name, reading, ""))
        for name in ("refusal_rate_at_least", "refusal_rate_at_most", "effective_answers")
    )
    return {
        **{"rate": rate.value, "low": rate.low, "high": rate.high, "n_eff": answers and answers.value},
        **{"bound_low": at_least and at_least.value, "bound_high": at_most and at_most.value},
        "flags": list(rate.flags),
    }


def _reading(rows: Mapping[Any, Estimate], reading: str, k: int, value: Any) -> dict[str, Any]:
    found = _rate(rows, reading)
    flags = found.pop("flags")
    return {
        **found,
        "majority": {"refuse": value(f"majority@{k}", reading), "tie": value(f"majority@{k}_tie", reading)},
        "any": value(f"any@{k}", reading),
        "flags": flags,
    }


def _ends(row: Estimate | None) -> dict[str, Any] | None:
    return None if row is None else {"value": row.value, "low": row.low, "high": row.high, "flags": list(row.flags)}


def _c(rows: Mapping[Any, Estimate], tau: str, value: Any) -> dict[str, Any]:
    mean, voting = rows["c_mean", None, tau], rows["prompts", None, "c"]
    shares: dict[str, Any] = {band: value(f"c_band_{band}", None, tau) for band in ("refusing", "mixed", "complying")}
    ends = {"mean": mean.value, "low": mean.low, "high": mean.high}
    shares["positive"] = _ends(rows.get(("c_positive", None, tau)))
    return ends | shares | {"n": voting.n_prompts or 0, "n_prompts": int(voting.value or 0)}


def has_turns(scores: Iterable[Score]) -> bool:
    """Tell whether a prompt has several scored turns, so that numbers are not per prompt."""
    return any(score["n_turns"] > score["n_prompts"] for score in scores)


def of_alone(scores: Iterable[Score]) -> list[Score]:
    """Return the cells that have rates of the model alone, with these as their rates, and without what was blocked."""
    found = list[Score]()
    for score in scores:
        if alone := score.get("alone"):
            rates = {reading: {**score[reading], **alone[reading]} for reading in READINGS}
            own = {**score, **rates, "flags": alone[score["headline"]]["flags"]}
            unblocked = {"states": {**score["states"], BLOCKED: 0}, "n_scored_turns": alone["n_prompts"]}
            found.append(own | unblocked)
    return found


def state_shares(score: Score) -> dict[str, float]:
    """Return the shares of a cell's answers in each state, of its verdicts (`verdict_*`), and of `unjudged` ones."""
    shares = {state: n / score["n_answers"] for state, n in score["states"].items()}
    shares |= {f"verdict_{state}": n / score["n_answers"] for state, n in score["verdict_states"].items()}
    counting = score["verdict_states"]["judged"] + score["states"]["blocked"]
    return shares | {"unjudged": (score["n_answers"] - counting) / score["n_answers"]}
