"""One cell under the published code: its answers, verdicts and probabilities joined, and what comes of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from refusal_eval.compat.protocol_effects import Sample, Unit, effects, published_score
from refusal_eval.compat.published_responses import Place, likelihoods
from refusal_eval.compat.published_score import PromptScore, metrics
from refusal_eval.compat.published_verdicts import published_text, vote_of_text, vote_of_verdict
from refusal_eval.stats.estimates.estimands import Outcome, Row, sample_outcomes, scored_turns


def cell_units(
    prompts: Iterable[Row],
    answers: Iterable[Row],
    verdicts: Iterable[Row],
    published: Iterable[Row],
    samples: int,
    scored: str | None = None,
    votes: Mapping[Place, float] | None = None,
) -> dict[tuple[str, int], list[Sample]]:
    """Return the samples of each (prompt id, turn), sorted by it.

    Args:
        prompts: the split.
        answers: the cell's answers.
        verdicts: a judge's verdicts on them.
        published: rows of `responses.response_rows`.
        samples: K.
        scored: which turns of dialogues count; None without dialogues.
        votes: those that came with recorded answers, if the judge is the one that gave them. They are taken as they
            are, in place of the verdicts: a missing one is 0, and answers without text may have one.
    """
    turns = {prompt["id"]: scored_turns(prompt, scored or "all") for prompt in prompts}
    verdicts = list(verdicts)
    by_place = {(row["prompt_id"], row["sample"], row["turn"]): row for row in verdicts}
    found = likelihoods(published)
    by_text = any(published_text(row) is not None for row in verdicts)

    def sample(outcome: Outcome, place: Place) -> Sample:
        verdict = by_place.get(place)
        text = published_text(verdict)
        text_vote = None if text is None else int(vote_of_text(text))
        vote = vote_of_verdict(verdict, by_text) if votes is None else votes.get(place, 0.0)
        return Sample(outcome, vote, text_vote, found.get(place))

    return {
        (prompt_id, turn): [sample(outcome, (prompt_id, k, turn)) for k, outcome in enumerate(outcomes)]
        for (prompt_id, turn), outcomes in sample_outcomes(turns, answers, verdicts, samples).items()
    }


def published_cell(units: Mapping[tuple[str, int], Unit], tau: float, band: float) -> dict[str, Any]:
    """Return a cell's published `scores` (a row per scored prompt), its `metrics` (None: no prompt has a score), and
    the `choices` (see `effects.effects`).
    """
    found = {place: score for place, unit in units.items() if (score := published_score(unit)) is not None}
    shares = metrics(score.score for score in found.values())
    return {
        "scores": [
            {"prompt_id": prompt_id, "turn": turn, **score_fields(score)} for (prompt_id, turn), score in found.items()
        ],
        "metrics": None if shares is None else shares._asdict(),
        "choices": effects(list(units.values()), tau, band),
    }


def score_fields(score: PromptScore) -> dict[str, float]:
    """Return a score under the names of the published code's files."""
    return {"answer_pos_prob": score.pos, "answer_neg_prob": score.neg, "answer_censor_score": score.score}
