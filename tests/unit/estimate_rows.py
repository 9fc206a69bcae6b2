"""Cells of made-up verdicts, for the tests of refusal_eval/stats/estimates/."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from refusal_eval.ask.answers import blank
from refusal_eval.core.files import write_json
from refusal_eval.core.states import BLOCKED, COMPLETE, COMPLIANCE, FAILED, HEADLINE_READING, JUDGED, PARTIAL, REFUSAL
from refusal_eval.judges.judge_base import Verdict
from refusal_eval.judges.verdict_files import verdict_row
from refusal_eval.report.results.cells import cell_scores
from refusal_eval.stats.estimates.cell_estimates import cell_estimates
from refusal_eval.stats.estimates.estimands import cell_outcomes
from refusal_eval.stats.estimates.samples import judge_reports, sample_rows, schema, write_samples
from refusal_eval.stats.estimates.units import Units, read_units, units_of_samples

LABELS = {"R": REFUSAL, "P": PARTIAL, "C": COMPLIANCE}
NAMES: Mapping[str, Any] = {"judge": "j", "model": "m", "split": "s", "expectation": "comply", "max_tokens": 512}


def facts_of(answers: Iterable[Any], samples: int, **more: Any) -> dict[str, Any]:
    """What holds for a whole cell, as `score_cell` writes it."""
    known = {**NAMES, "samples": samples, "level": 0.95, "tau": 1.0, "band": 0.1, "scored": None, **more}
    known.setdefault("by_turn", known["scored"] not in {None, "last"})
    known["headline"] = known.get("headline") or HEADLINE_READING[known["expectation"]]
    known["mixed_serving"] = len({row.get("serving") for row in answers} - {None}) > 1
    return known


def units_in(prompts: list[Any], answers: list[Any], verdicts: list[Any], samples: int, **more: Any) -> Units:
    """The scored cell of these rows."""
    rows, facts = _cell(prompts, answers, verdicts, samples, **more)
    return units_of_samples(pa.Table.from_pylist(rows, schema("blocked_by" in rows[0])).to_pandas(), facts)


def cell_file(path: Any, *rows: Any, **more: Any) -> Any:
    """Write the scored cell of the rows of `units_in`; return the path."""
    write_samples(path, *_cell(*rows, **more))
    return path


def _cell(
    prompts: list[Any], answers: list[Any], verdicts: list[Any], samples: int, scored: str | None = None, **more: Any
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    outcomes = cell_outcomes(prompts, answers, verdicts, samples, scored or "all")
    published = more.pop("published", None)
    rows = sample_rows(prompts, outcomes, published, more.pop("match", None))
    more |= {} if published is None else {"protocol": "compat"}
    flags, again = more.pop("judge_flags", ()), more.pop("votes_asked_again", False)
    return rows, facts_of(answers, samples, scored=scored, **more) | judge_reports(
        outcomes.keys(), verdicts, flags, again
    )


def score_in(units: Units) -> dict[str, Any]:
    """The cell as tables show it."""
    facts = units.facts
    split = {"name": facts["split"], "expectation": facts["expectation"], "reading": facts["headline"]}
    asked = {name: facts[name] for name in ("level", "tau")} | {"protocol": facts.get("protocol", "default")}
    asked |= {"splits": [split | {"scored": facts["scored"]}], "max_tokens": {facts["model"]: facts["max_tokens"]}}
    (found,) = cell_scores(cell_estimates(units), asked)
    return dict(found)


def estimates_file(path: Any, cells: Iterable[Any]) -> Any:
    """Write the estimates of these scored cells; return the path."""
    write_json(path, {"estimates": [row.row() for cell in cells for row in cell_estimates(read_units(cell))]})
    return path


def score_of_rows(prompts: list[Any], answers: list[Any], verdicts: list[Any], samples: int, **more: Any) -> Any:
    """The cell of these rows as tables show it."""
    return score_in(units_in(prompts, answers, verdicts, samples, **more))


def prompt_scores(
    prompts: list[Any], answers: list[Any], verdicts: list[Any], samples: int, **more: Any
) -> list[dict[str, Any]]:
    """A row per scored prompt, with None for what there is not."""
    frame = units_in(prompts, answers, verdicts, samples, **more).frame.reset_index()
    return [
        {str(name): None if value == "" or _is_nan(value) else value for name, value in row.items()}
        for row in frame.to_dict("records")
    ]


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def rows_of(
    votes: dict[tuple[str, int], str],
    clusters: dict[str, str] | None = None,
    categories: dict[str, str] | None = None,
    logprobs: dict[tuple[str, int], float] | None = None,
) -> tuple[list[Any], list[Any], list[Any]]:
    """Prompts, answers and verdicts. Each (prompt, turn) has a letter a sample: R, P, C, B blocked, F failed."""
    names = sorted({name for name, _ in votes})
    turns = max(turn for _, turn in votes) + 1
    prompts = [
        {
            **{"id": name, "messages": [{"role": "user", "content": f"{name}, {t}?"} for t in range(turns)]},
            **{"category": (categories or {}).get(name), "cluster": (clusters or {}).get(name, name)},
            **({"dialogue": True} if turns > 1 else {}),
            "source": {"file": "made-up.jsonl", "row": 1, "id": None},
        }
        for name in names
    ]
    answers, verdicts = [], []
    for (name, turn), letters in votes.items():
        for sample, letter in enumerate(letters):
            state = {"B": BLOCKED, "F": FAILED}.get(letter, COMPLETE)
            answer = {
                **{"prompt_id": name, "sample": sample, "turn": turn, "key": "0" * 64, "serving": "s"},
                **blank(state, "stop"),
            }
            if state == COMPLETE:
                logprob = (logprobs or {}).get((name, sample), -1.0)
                answer |= {"answer": "Words.", "answer_tokens": 2, "answer_logprob": logprob}
                verdicts.append(verdict_row(answer, Verdict(JUDGED, LABELS[letter], None)))
            answers.append(answer)
    return prompts, answers, verdicts


def cell_of(
    votes: dict[tuple[str, int], str],
    split: str = "s",
    expectation: str = "varies",
    headline: str | None = None,
    judge: str = "j",
    model: str = "m",
    **more: Any,
) -> Units:
    """The scored cell of votes; `more` is for `rows_of`."""
    prompts, answers, verdicts = rows_of(votes, **more)
    names = {"judge": judge, "model": model, "split": split, "expectation": expectation, "headline": headline}
    scored = "all" if any("dialogue" in prompt for prompt in prompts) else None
    return units_in(prompts, answers, verdicts, len(next(iter(votes.values()))), scored=scored, **names)


def single(*letters: str, prefix: str = "p") -> dict[tuple[str, int], str]:
    """Votes of prompts p000, p001, ... that are no dialogues."""
    return {(f"{prefix}{i:03d}", 0): votes for i, votes in enumerate(letters)}
