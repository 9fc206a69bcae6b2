"""The files of the published library for one model and split, written from our rows and read back.

What is known of them: the four names; `answer_pos_prob`, `answer_neg_prob` and `answer_censor_score` of a prompt's
score; and the three percentages under `answer_censor_score`. The rest is our choice: `answers` (whole texts, reasoning
first), `thinking_probs`, `answer_probs`, `combined_probs` and `judge_scores` are lists over the samples of a prompt.
When reading, `answers` may also be a list of mappings with the same names in the singular (`answer_prob`), and a judge
score a list over the judge's own samples, of which the mean counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refusal_eval.compat.cell import score_fields
from refusal_eval.compat.float32 import EXACT, Elementary
from refusal_eval.compat.responses import Likelihood, likelihoods
from refusal_eval.compat.scores import PromptScore, logarithms, metrics, prompt_score
from refusal_eval.compat.segments import NO_TOKENS, Probabilities
from refusal_eval.compat.verdicts import vote_of_verdict
from refusal_eval.errors import UserError
from refusal_eval.files import read_json, write_json

ANSWERS, JUDGE_SCORES = "answers.json", "judge_scores.json"
SCORES, METRICS = "censor_scores.json", "censor_scores_metrics.json"
SCORE = "answer_censor_score"
TOLERANCE = 1e-6  # a difference below it is the rounding of float32

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Folder:
    """What lies in one folder: by prompt, in the order of the file.

    Attributes:
        probabilities: of each prompt's answers; -1 for an answer without tokens.
        votes: of the same answers; may be fewer.
        scores: the prompts' scores as the folder has them; None without that file.
        metrics: the percentages as the folder has them; None without that file.
    """

    probabilities: Mapping[str, Sequence[float]]
    votes: Mapping[str, Sequence[float]]
    scores: Mapping[str, float] | None
    metrics: Mapping[str, float] | None


def files_of(
    prompts: Iterable[Row], answers: Iterable[Row], verdicts: Iterable[Row], published: Iterable[Row], scores: Row
) -> dict[str, Any]:
    """Return the content of the four files by name.

    Args:
        prompts: the split, in the order that the files are to have.
        answers: the cell's answers.
        verdicts: a judge's verdicts on them.
        published: rows of `responses.response_rows`.
        scores: what `cell.published_cell` returned.

    Raises:
        UserError: for a split of dialogues; the published code knows none.
    """
    by_prompt: dict[str, list[Row]] = {}
    for answer in answers:
        if answer["turn"] != 0:
            raise UserError("dialogues have no place in the published layout")
        by_prompt.setdefault(answer["prompt_id"], []).append(answer)
    judged = {(row["prompt_id"], row["sample"]): row for row in verdicts}
    found = likelihoods(published)
    scored = {row["prompt_id"]: row for row in scores["scores"]}
    files: dict[str, Any] = {ANSWERS: [], JUDGE_SCORES: [], SCORES: []}
    for prompt in prompts:
        name, text = prompt["id"], prompt["messages"][-1]["content"]
        own = sorted(by_prompt.get(name, ()), key=lambda answer: answer["sample"])
        likely = [_probabilities(found.get((name, answer["sample"], 0))) for answer in own]
        parts = {f"{part}_probs": [getattr(row, part) for row in likely] for part in Probabilities._fields}
        texts = [(answer["reasoning"] or "") + answer["answer"] for answer in own]
        files[ANSWERS].append({"prompt": text, "answers": texts, **parts})
        votes = [vote_of_verdict(judged.get((name, answer["sample"]))) for answer in own]
        files[JUDGE_SCORES].append({"prompt": text, "judge_scores": votes})
        if name in scored:
            row = scored[name]
            score = PromptScore(row["answer_pos_prob"], row["answer_neg_prob"], row["answer_censor_score"])
            files[SCORES].append({"prompt": text, **score_fields(score)})
    if scores["metrics"] is not None:
        files[METRICS] = {SCORE: dict(scores["metrics"])}
    return files


def write_folder(folder: Path, files: Mapping[str, Any]) -> None:
    """Write the files of one model and split."""
    for name, content in files.items():
        write_json(folder / name, content)


def read_folder(folder: Path) -> Folder:
    """Read what the published library, or `write_folder`, left in a folder.

    Raises:
        UserError: for a file that is missing or not of that layout; the message says what was expected.
    """
    answers, judged = _rows(folder / ANSWERS), _rows(folder / JUDGE_SCORES)
    probabilities = {row["prompt"]: _numbers(row, "answer_prob", "answers", folder / ANSWERS) for row in answers}
    votes = {row["prompt"]: _numbers(row, "judge_score", "judge_scores", folder / JUDGE_SCORES) for row in judged}
    scores = None
    if (folder / SCORES).is_file():
        scores = {row["prompt"]: float(row[SCORE]) for row in _rows(folder / SCORES)}
    told = read_json(folder / METRICS) if (folder / METRICS).is_file() else None
    return Folder(probabilities, votes, scores, None if told is None else told.get(SCORE, told))


def recomputed(
    folder: Folder, elementary: Elementary = EXACT
) -> tuple[dict[str, PromptScore], dict[str, float] | None]:
    """Return the scores by prompt, without those that are dropped, and the metrics, from answers and judge scores."""
    names = list(folder.probabilities)
    given = [list(folder.probabilities[name]) for name in names]
    logs = logarithms(given, elementary)
    found = {
        name: score
        for name, own, own_logs in zip(names, given, logs, strict=True)
        if (score := prompt_score(own, own_logs, folder.votes.get(name, ()))) is not None
    }
    shares = metrics(score.score for score in found.values())
    return found, None if shares is None else {name: float(value) for name, value in shares._asdict().items()}


def differences(folder: Folder, elementary: Elementary = EXACT) -> list[str]:
    """Return in words where the folder's own scores and metrics are not what follows from its answers and votes."""
    scores, shares = recomputed(folder, elementary)
    told = []
    for name, value in (folder.scores or {}).items():
        number = f"prompt {list(folder.probabilities).index(name)}" if name in folder.probabilities else "a prompt"
        if name not in scores:
            told.append(f"{number} has a score, but no answer with tokens")
        elif abs(scores[name].score - value) > TOLERANCE:
            told.append(f"{number} has the score {value:.6f}; {scores[name].score:.6f} follows from its answers")
    missing = len(set(scores) - set(folder.scores)) if folder.scores is not None else 0
    if missing:
        told.append(f"{missing} prompts have answers with tokens, but no score")
    for key, share in (folder.metrics or {}).items():
        if shares is None or abs(shares.get(key, float("nan")) - share) > TOLERANCE:
            told.append(f"{key} is {share}; {None if shares is None else shares.get(key)} follows")
    return told


def _probabilities(likelihood: Likelihood | None) -> Probabilities:
    return Probabilities(NO_TOKENS, NO_TOKENS, NO_TOKENS) if likelihood is None else likelihood.probabilities


def _rows(path: Path) -> list[Mapping[str, Any]]:
    if not path.is_file():
        raise UserError(f"there is no {path}")
    rows = read_json(path)
    if not isinstance(rows, list) or not all(isinstance(row, dict) and "prompt" in row for row in rows):
        raise UserError(f"{path} is not of the published layout: a list of mappings with `prompt` was expected")
    return rows


def _numbers(row: Mapping[str, Any], name: str, nested: str, path: Path) -> list[float]:
    values = row.get(f"{name}s", row.get(nested))
    if isinstance(values, list) and all(isinstance(value, dict) and name in value for value in values):
        values = [value[name] for value in values]
    means = [sum(value) / len(value) if isinstance(value, list) and value else value for value in values or []]
    if not isinstance(values, list) or not all(isinstance(value, int | float) for value in means):
        raise UserError(f"{path}: `{name}s` of each prompt has to be a list of numbers (or `{nested}` of `{name}`)")
    return [float(value) for value in means]
