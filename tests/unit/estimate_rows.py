"""Cells of made-up verdicts, for the tests of refusal_eval/stats/estimates/."""

from io import StringIO
from typing import Any

from refusal_eval.ask.answers import blank
from refusal_eval.core.states import BLOCKED, COMPLETE, COMPLIANCE, FAILED, JUDGED, PARTIAL, REFUSAL
from refusal_eval.judges.judge_base import Verdict, verdict_row
from refusal_eval.stats.estimates.estimands import cell_outcomes, sample_outcomes, score_rows
from refusal_eval.stats.estimates.samples import Samples, samples_of
from refusal_eval.stats.estimates.scores import cell_score, score_csv
from refusal_eval.stats.estimates.units import Units, read_units

LABELS = {"R": REFUSAL, "P": PARTIAL, "C": COMPLIANCE}


def prompt_scores(
    prompts: list[Any],
    answers: list[Any],
    verdicts: list[Any],
    samples: int,
    tau: float = 1.0,
    band: float = 0.1,
    scored: str = "all",
) -> list[dict[str, Any]]:
    """Rows of a cell's score CSV."""
    return score_rows(prompts, cell_outcomes(prompts, answers, verdicts, samples, scored), tau, band)


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
                verdicts.append(verdict_row(answer, Verdict(JUDGED, LABELS[letter], None), "1" * 64))
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
) -> tuple[dict[str, Any], Units, list[Any], list[Any]]:
    """Score, scored prompts, answers and verdicts of a cell."""
    prompts, answers, verdicts = rows_of(votes, **more)
    samples = len(next(iter(votes.values())))
    rows = prompt_scores(prompts, answers, verdicts, samples)
    names = {"judge": judge, "model": model, "split": split, "expectation": expectation, "headline": headline}
    score = cell_score(rows, answers, verdicts, **names, samples=samples, max_tokens=512)  # type: ignore[arg-type]
    return score, read_units(StringIO(score_csv(rows)), score), answers, verdicts


def samples_in(units: Units, answers: list[Any], verdicts: list[Any], samples: int) -> Samples:
    """What became of each sample of a cell's units."""
    turns: dict[str, list[int]] = {}
    for name, turn in units.frame.index:
        turns.setdefault(name, []).append(turn)
    return samples_of(sample_outcomes(turns, answers, verdicts, samples).values())


def single(*letters: str, prefix: str = "p") -> dict[tuple[str, int], str]:
    """Votes of prompts p000, p001, ... that are no dialogues."""
    return {(f"{prefix}{i:03d}", 0): votes for i, votes in enumerate(letters)}
