"""What became of each of the K samples of a prompt, answers and verdicts joined.

The unit is the turn of a prompt. An ordinary prompt has one, number 0; of a dialogue's turns some are scored or all.
Where the numbers count prompts, each scored turn is one.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from refusal_eval.core.errors import UserError
from refusal_eval.core.states import (
    ANSWER_STATES,
    COMPLIANCE,
    FAILED,
    JUDGED,
    JUDGED_ANSWER_STATES,
    LABELS,
    PARTIAL,
    REFUSAL,
    VERDICT_STATES,
    place_of,
)
from refusal_eval.study.dialogues import asked_turns, scored_turns

CellRow = Mapping[str, Any]

_UNIT, _STATE = itemgetter("prompt_id", "turn"), itemgetter("state")

READINGS = ("strict", "broad")
MISSING = "missing"  # a judged answer without a verdict row
MIXED = "headline"  # the reading of a number over splits with different headline readings

# The vote of a label in c(x), and what each reading calls a refusal.
VOTES = {REFUSAL: 1, PARTIAL: 0, COMPLIANCE: -1}
REFUSES = {"strict": frozenset({REFUSAL}), "broad": frozenset({REFUSAL, PARTIAL})}


class BadRows(UserError, ValueError):
    """Prompts, answers and verdicts that do not belong together; the message names the row."""


class SampleOutcome(NamedTuple):
    """What became of one sample."""

    state: str
    label: str | None  # None unless judged
    logprob: float | None  # mean raw log-probability of the answer tokens, natural logarithm
    answer: CellRow | None = None  # its row, None for one without
    verdict: CellRow | None = None  # the row of the verdict on it


def sample_outcomes(
    turns: Mapping[str, Iterable[int]], answers: Iterable[CellRow], verdicts: Iterable[CellRow], samples: int
) -> dict[tuple[str, int], list[SampleOutcome]]:
    """Join a cell's rows, in any order, into exactly `samples` outcomes for each (prompt id, turn), sorted by it.

    A sample without an answer row is `failed`. Answers to turns that are not scored (`turns`: those that are, by prompt
    id) play no part.

    Raises:
        BadRows: for a row that occurs twice, or rows that do not belong together (an unknown prompt, a sample beyond
            `samples`, a verdict on an answer that no judge should have seen, an unknown state or label).
    """
    judged = _unique(verdicts, VERDICT_STATES, "verdict")
    by_turn = _unique(answers, ANSWER_STATES, "answer")
    for prompt_id, sample, _ in by_turn:
        if prompt_id not in turns:
            raise BadRows(f"an answer belongs to prompt {prompt_id}, which is not in the split")
        if not 0 <= sample < samples:
            raise BadRows(f"prompt {prompt_id} has sample {sample}, but {samples} were asked for")
    for key, verdict in judged.items():
        if key not in by_turn or by_turn[key]["state"] not in JUDGED_ANSWER_STATES:
            raise BadRows(f"a verdict on {key} has no answer that a judge could read")
        if (verdict["label"] in LABELS) != (verdict["state"] == JUDGED):
            raise BadRows(f"the verdict on {key} is {verdict['state']} with label {verdict['label']}")
    outcomes = {key: _outcome(answer, judged.get(key)) for key, answer in by_turn.items()}
    units = sorted((prompt_id, turn) for prompt_id, scored in turns.items() for turn in scored)
    lost = SampleOutcome(FAILED, None, None)
    return {
        (prompt_id, turn): [outcomes.get((prompt_id, sample, turn), lost) for sample in range(samples)]
        for prompt_id, turn in units
    }


def cell_outcomes(
    prompts: Iterable[CellRow],
    answers: Iterable[CellRow],
    verdicts: Iterable[CellRow],
    samples: int,
    scored: str = "all",
) -> dict[tuple[str, int], list[SampleOutcome]]:
    """Return `sample_outcomes` of the scored turns of a cell's prompts.

    Raises:
        UserError: as `scored_turns` does.
        BadRows: for a prompt that occurs twice, an answer to a turn that its prompt does not ask, and as
            `sample_outcomes` does.
    """
    by_id: dict[str, CellRow] = {}
    for prompt in prompts:
        if prompt["id"] in by_id:
            raise BadRows(f"prompt {prompt['id']} occurs twice")
        by_id[prompt["id"]] = prompt
    answers = list(answers)
    asked = {name: asked_turns(prompt) for name, prompt in by_id.items()}
    for name, turn in set(map(_UNIT, answers)):
        if name in asked and turn not in asked[name]:
            raise BadRows(f"prompt {name} has an answer to turn {turn}, which is not asked")
    turns = {name: scored_turns(prompt, scored) for name, prompt in by_id.items()}
    return sample_outcomes(turns, answers, verdicts, samples)


def _unique(rows: Iterable[CellRow], states: Sequence[str], what: str) -> dict[tuple[str, int, int], CellRow]:
    rows = list(rows)
    found = dict(zip(map(place_of, rows), rows, strict=True))
    if len(found) < len(rows):
        (key, _), *_ = Counter(map(place_of, rows)).most_common(1)
        raise BadRows(f"{what} {key} (prompt, sample, turn) occurs twice")
    if unknown := set(map(_STATE, rows)) - set(states):
        key, row = next((key, row) for key, row in found.items() if row["state"] in unknown)
        raise BadRows(f"{what} {key} has the unknown state {row['state']!r}")
    return found


def _outcome(answer: CellRow, verdict: CellRow | None) -> SampleOutcome:
    if answer["state"] not in JUDGED_ANSWER_STATES:
        return SampleOutcome(answer["state"], None, None, answer)
    label = None if verdict is None else verdict["label"]
    return SampleOutcome(answer["state"], label, answer["answer_logprob"], answer, verdict)
