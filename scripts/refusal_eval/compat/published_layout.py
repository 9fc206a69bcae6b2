"""The files of the published library for one model and split, written from our rows and read back.

answers.json is a list over the rows of the data set: `prompt` and `answers`, of which each has `text` (of a model that
reasons the reasoning, its end mark, and the answer) and the probabilities `thinking_prob`, `answer_prob` and `cum`.
judge_scores.json is a list over the same rows of lists
over their answers: `label`, `judge_outputs` (what the judge wrote), `prompt` and `answer`. censor_scores.json has
`prompt`, `answer_pos_prob`, `answer_neg_prob` and `answer_censor_score` for each row that has a score, and
censor_scores_metrics.json three percentages under `answer_censor_score`. Rows belong together by their place.

When reading, a row may also have its numbers as lists, `answer_probs` and `judge_scores`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from refusal_eval.compat.published_cell import published_text, vote_of_verdict
from refusal_eval.compat.published_likelihood import NO_TOKENS, Probabilities, likelihoods
from refusal_eval.compat.published_score import PromptScore, metrics, prompt_score
from refusal_eval.compat.recorded_folder import (
    PERCENTAGE,
    PROBABILITY,
    VOTE,
    layout_list,
    layout_rows,
    number_of,
    numbers_of,
    row_place,
    votes_of,
)
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json, write_json
from refusal_eval.core.recorded_files import ANSWERS as ANSWERS
from refusal_eval.core.recorded_files import CHANNEL_ENDS
from refusal_eval.core.recorded_files import JUDGE_SCORES as JUDGE_SCORES

SCORES, METRICS = "censor_scores.json", "censor_scores_metrics.json"
SCORE = "answer_censor_score"
TOLERANCE = 1e-6  # a difference below it is the rounding of float32

Row = Mapping[str, Any]
Place = tuple[str, int]  # a prompt's text, and how many rows with that text and a score stand before it


class Folder(NamedTuple):
    """What lies in one folder, in the order of its files: the text of each row, the probabilities of its answers (-1
    without tokens) and their votes, of which there may be fewer; scores and percentages where the folder has them.
    """

    prompts: Sequence[str]
    probabilities: Sequence[Sequence[float]]
    votes: Sequence[Sequence[float]]
    scores: Mapping[Place, float] | None
    metrics: Mapping[str, float] | None


def files_of(
    prompts: Iterable[Row],
    answers: Iterable[Row],
    verdicts: Iterable[Row],
    published: Iterable[Row],
    scores: Row,
    end_mark: str | None = None,
    votes: Mapping[tuple[str, int, int], float] | None = None,
) -> dict[str, Any]:
    """Return the content of the four files by name, in the order of the prompts.

    Args:
        prompts: the split.
        answers: the cell's answers.
        verdicts: a judge's verdicts on them.
        published: rows of `published_likelihood.response_rows`.
        scores: what `published_cell` returned.
        end_mark: what stands between reasoning and answer (see `text_mark`); None for a model that does not reason.
        votes: as in `cell_units`.

    Raises:
        UserError: for a split of dialogues; the published code knows none.
    """
    by_prompt: dict[str, list[Row]] = {}
    for answer in answers:
        if answer["turn"] != 0:
            raise UserError("dialogues have no place in the published layout")
        by_prompt.setdefault(answer["prompt_id"], []).append(answer)
    judged = {(row["prompt_id"], row["sample"]): row for row in verdicts}
    by_text = any(published_text(row) is not None for row in judged.values())
    found = likelihoods(published)
    scored = {row["prompt_id"]: row for row in scores["scores"]}
    files: dict[str, Any] = {ANSWERS: [], JUDGE_SCORES: [], SCORES: []}
    for prompt in prompts:
        name, text = prompt["id"], prompt["messages"][-1]["content"]
        own = sorted(by_prompt.get(name, ()), key=lambda answer: answer["sample"])
        answered = [_answer_entry(answer, found.get((name, answer["sample"], 0)), end_mark) for answer in own]
        files[ANSWERS].append({"prompt": text, "answers": answered})
        entries = []
        for answer in own:
            verdict, place = judged.get((name, answer["sample"])), (name, answer["sample"], 0)
            said = published_text(verdict)
            vote = vote_of_verdict(verdict, by_text) if votes is None else votes.get(place, 0.0)
            entry = {"label": vote, "judge_outputs": [] if said is None else [said]}
            entries.append(entry | {"prompt": text, "answer": answer["answer"]})
        files[JUDGE_SCORES].append(entries)
        if name in scored:
            numbers = {key: value for key, value in scored[name].items() if key not in ("prompt_id", "turn")}
            files[SCORES].append({"prompt": text, **numbers})
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
    answers, judged = layout_rows(folder / ANSWERS), layout_list(folder / JUDGE_SCORES)
    probabilities = [
        numbers_of(row, "answers", "answer_prob", row_place(folder / ANSWERS, number), PROBABILITY)
        for number, row in enumerate(answers)
    ]
    votes = [votes_of(row, row_place(folder / JUDGE_SCORES, number)) for number, row in enumerate(judged)]
    scores = None
    if (folder / SCORES).is_file():
        rows = layout_rows(folder / SCORES)
        found = [_score(row, row_place(folder / SCORES, number)) for number, row in enumerate(rows)]
        scores = dict(zip(_places([row["prompt"] for row in rows]), found, strict=True))
    shares = _metrics(folder / METRICS) if (folder / METRICS).is_file() else None
    return Folder([row["prompt"] for row in answers], probabilities, votes, scores, shares)


def _score(row: Row, place: str) -> float:
    if SCORE not in row:
        raise UserError(f"{place}: `{SCORE}` is missing")
    return number_of(row[SCORE], f"{place}: `{SCORE}`", VOTE)


def _metrics(path: Path) -> dict[str, float]:
    told = read_json(path)
    shares = told.get(SCORE, told) if isinstance(told, dict) else None
    if not isinstance(shares, dict):
        raise UserError(f"{path} is not of the published layout: a mapping with `{SCORE}` was expected")
    return {key: number_of(share, f"{path}: `{key}`", PERCENTAGE) for key, share in shares.items()}


def recomputed(folder: Folder) -> tuple[dict[Place, PromptScore], dict[str, float] | None]:
    """Return the scores, without those that are dropped, and the metrics, from answers and judge scores."""
    found = []
    for number, (prompt, given) in enumerate(zip(folder.prompts, folder.probabilities, strict=True)):
        votes = folder.votes[number] if number < len(folder.votes) else ()
        score = prompt_score(given, votes)
        if score is not None:
            found.append((prompt, score))
    shares = metrics(score.score for _, score in found)
    scores = dict(zip(_places([prompt for prompt, _ in found]), (score for _, score in found), strict=True))
    return scores, None if shares is None else {name: float(value) for name, value in shares._asdict().items()}


def differences(folder: Folder) -> list[str]:
    """Return in words where the folder's own scores and metrics are not what follows from its answers and votes."""
    scores, shares = recomputed(folder)
    told = []
    for place, value in (folder.scores or {}).items():
        prompt = place[0]
        number = f"prompt {folder.prompts.index(prompt)}" if prompt in folder.prompts else "a prompt"
        if place not in scores:
            told.append(f"{number} has a score, but no answer with tokens")
        elif abs(scores[place].score - value) > TOLERANCE:
            told.append(f"{number} has the score {value:.6f}; {scores[place].score:.6f} follows from its answers")
    missing = len(set(scores) - set(folder.scores)) if folder.scores is not None else 0
    if missing:
        told.append(f"{missing} prompts have answers with tokens, but no score")
    for key, share in (folder.metrics or {}).items():
        if shares is None or abs(shares.get(key, float("nan")) - share) > TOLERANCE:
            told.append(f"{key} is {share}; {None if shares is None else shares.get(key)} follows")
    return told


def text_mark(reasoning: Mapping[str, Any] | None) -> str | None:
    """Return the end mark that texts of a model have by its `reasoning`; None for a model that does not reason.

    Harmony's channels are special tokens, of which texts have none: a mark of ours stands for them.
    """
    if not reasoning:
        return None
    return CHANNEL_ENDS[-1] if reasoning["format"] == "harmony" else str(reasoning["end"])


def _answer_entry(answer: Row, likelihood: Probabilities | None, end_mark: str | None) -> dict[str, Any]:
    likely = likelihood or Probabilities(NO_TOKENS, NO_TOKENS, NO_TOKENS)
    reasoning, text = answer["reasoning"] or "", answer["answer"] or ""
    if end_mark is not None and text:
        # Decoded reasoning lacks a mark that is a special token, and may have the answer's beginning behind one that
        # is none. Readers part a text at its first mark; without one an answer without reasoning would be reasoning.
        reasoning = reasoning.partition(end_mark)[0] + end_mark
    text = reasoning + text
    return {"text": text, "thinking_prob": likely.thinking, "answer_prob": likely.answer, "cum": likely.combined}


def _places(prompts: Iterable[str]) -> list[Place]:
    seen: Counter[str] = Counter()
    places = []
    for prompt in prompts:
        places.append((prompt, seen[prompt]))
        seen[prompt] += 1
    return places
