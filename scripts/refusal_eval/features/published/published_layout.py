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

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json, write_json
from refusal_eval.core.recorded_files import ANSWERS as ANSWERS
from refusal_eval.core.recorded_files import CHANNEL_ENDS
from refusal_eval.core.recorded_files import JUDGE_SCORES as JUDGE_SCORES
from refusal_eval.core.states import EMPTY, TRUNCATED_REASONING
from refusal_eval.features.published.protocol_effects import Sample
from refusal_eval.features.published.published_cell import cell_units
from refusal_eval.features.published.published_score import PromptScore, metrics, prompt_score
from refusal_eval.recorded.recorded_folder import (
    PARTS,
    PERCENTAGE,
    PROBABILITY,
    REASONING_ENDED,
    VOTE,
    layout_rows,
    need_single_messages,
    number_of,
    numbers_of,
    row_place,
    votes_by_row,
)

SCORES, METRICS = "censor_scores.json", "censor_scores_metrics.json"
SCORE = "answer_censor_score"
TOLERANCE = 1e-6  # a difference below it is the rounding of float32

PublishedRow = Mapping[str, Any]
TextPlace = tuple[str, int]  # a prompt's text, and how many rows with that text and a score stand before it


class Folder(NamedTuple):
    """What lies in one folder, in the order of its files: the text of each row, the probabilities of its answers (-1
    without tokens) and their votes, of which there may be fewer; scores and percentages where the folder has them.
    """

    prompts: Sequence[str]
    probabilities: Sequence[Sequence[float]]
    votes: Sequence[Sequence[float]]
    scores: Mapping[TextPlace, float] | None
    metrics: Mapping[str, float] | None


def files_of(
    prompts: Sequence[PublishedRow],
    answers: Iterable[PublishedRow],
    verdicts: Iterable[PublishedRow],
    published: Iterable[PublishedRow],
    scores: PublishedRow,
    end_mark: str | None = None,
    votes: Mapping[tuple[str, int, int], float] | None = None,
) -> dict[str, Any]:
    """Return the content of the four files by name, in the order of the prompts.

    Args:
        published: rows of `published_score.response_rows`.
        scores: what `published_cell` returned.
        end_mark: what stands between reasoning and answer (see `text_mark`); None for a model that does not reason.
        votes: as in `cell_units`.

    Raises:
        UserError: for a split of dialogues, or with prompts of several messages; the published code knows none.
    """
    answers = sorted(answers, key=lambda answer: answer["sample"])
    if any(answer["turn"] != 0 for answer in answers):
        raise UserError("dialogues have no place in the published layout")
    need_single_messages(prompts)
    units = cell_units(prompts, answers, verdicts, published, answers[-1]["sample"] + 1, votes=votes)
    by_prompt: dict[str, list[tuple[PublishedRow, Sample]]] = {prompt["id"]: [] for prompt in prompts}
    for answer in answers:
        name = answer["prompt_id"]
        by_prompt[name].append((answer, units[name, 0][answer["sample"]]))
    scored = {row["prompt_id"]: row for row in scores["scores"]}
    files: dict[str, Any] = {ANSWERS: [], JUDGE_SCORES: [], SCORES: []}
    for prompt in prompts:
        name, text = prompt["id"], prompt["messages"][-1]["content"]
        files[ANSWERS].append({"prompt": text, "answers": [_answer_entry(*one, end_mark) for one in by_prompt[name]]})
        said = [
            {"label": sample.vote, "judge_outputs": [] if sample.text is None else [sample.text]}
            | {"prompt": text, "answer": answer["answer"]}
            for answer, sample in by_prompt[name]
        ]
        files[JUDGE_SCORES].append(said)
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
    answers = layout_rows(folder / ANSWERS)
    probabilities = [
        numbers_of(row, "answers", "answer_prob", row_place(folder / ANSWERS, n), PROBABILITY, "answer_probs")
        for n, row in enumerate(answers)
    ]
    votes, scores = votes_by_row(folder / ANSWERS, folder / JUDGE_SCORES), None
    if (folder / SCORES).is_file():
        rows, found = layout_rows(folder / SCORES), []
        for number, row in enumerate(rows):
            what = f"{row_place(folder / SCORES, number)}: `{SCORE}`"
            if SCORE not in row:
                raise UserError(f"{what} is missing")
            found.append(number_of(row[SCORE], what, VOTE))
        scores = dict(zip(_places(row["prompt"] for row in rows), found, strict=True))
    shares = _metrics(folder / METRICS) if (folder / METRICS).is_file() else None
    return Folder([row["prompt"] for row in answers], probabilities, votes, scores, shares)


def _metrics(path: Path) -> dict[str, float]:
    written = read_json(path, of_user=True)
    shares = written.get(SCORE, written) if isinstance(written, dict) else None
    if not isinstance(shares, dict):
        raise UserError(f"{path} is not of the published layout: a mapping with `{SCORE}` was expected")
    return {key: number_of(share, f"{path}: `{key}`", PERCENTAGE) for key, share in shares.items()}


def recomputed(folder: Folder) -> tuple[dict[TextPlace, PromptScore], dict[str, float] | None]:
    """Return the scores, without those that are dropped, and the metrics, from answers and judge scores."""
    votes = [*folder.votes, *[()] * len(folder.prompts)]
    scores = [prompt_score(*one) for one in zip(folder.probabilities, votes, strict=False)]
    places = _places(prompt for prompt, score in zip(folder.prompts, scores, strict=True) if score)
    found = dict(zip(places, filter(None, scores), strict=True))
    return found, metrics(score.score for score in found.values())


def differences(folder: Folder) -> list[str]:
    """Return in words where the folder's own scores and metrics are not what follows from its answers and votes."""
    scores, shares = recomputed(folder)
    faults = []
    for place, value in (folder.scores or {}).items():
        number = f"prompt {folder.prompts.index(place[0])}" if place[0] in folder.prompts else "a prompt"
        if place not in scores:
            faults.append(f"{number} has a score, but no answer with tokens")
        elif abs(scores[place].score - value) > TOLERANCE:
            faults.append(f"{number} has the score {value:.6f}; {scores[place].score:.6f} follows from its answers")
    if folder.scores is not None and (missing := len(set(scores) - set(folder.scores))):
        faults.append(f"{missing} prompts have answers with tokens, but no score")
    for key, share in (folder.metrics or {}).items():
        if shares is None or abs(shares.get(key, float("nan")) - share) > TOLERANCE:
            faults.append(f"{key} is {share}; {None if shares is None else shares.get(key)} follows")
    return faults


def text_mark(reasoning: Mapping[str, Any] | None) -> str | None:
    """Return the end mark that texts of a model have by its `reasoning`; None for a model that does not reason.

    Harmony's channels are special tokens, of which texts have none: a mark of ours stands for them.
    """
    if not reasoning:
        return None
    return CHANNEL_ENDS[-1] if reasoning["format"] == "harmony" else str(reasoning["end"])


def _answer_entry(answer: PublishedRow, sample: Sample, end_mark: str | None) -> dict[str, Any]:
    reasoning, text = answer["reasoning"] or "", answer["answer"] or ""
    if end_mark is not None and (text or answer["state"] == EMPTY):
        # Decoded reasoning lacks a mark that is a special token, and may have the answer's beginning behind one that
        # is none. Readers part a text at its first mark; without one an answer without reasoning would be reasoning.
        reasoning = reasoning.partition(end_mark)[0] + end_mark
    cut = {REASONING_ENDED: False} if answer["state"] == TRUNCATED_REASONING else {}
    return {"text": reasoning + text, **cut, **dict(zip(PARTS.values(), sample.likely, strict=True))}


def _places(prompts: Iterable[str]) -> list[TextPlace]:
    seen: Counter[str] = Counter()
    places = []
    for prompt in prompts:
        places.append((prompt, seen[prompt]))
        seen[prompt] += 1
    return places
