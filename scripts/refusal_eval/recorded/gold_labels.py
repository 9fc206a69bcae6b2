"""Labels that came with recorded answers, found again for the same answers in gold, where people labelled them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.states import JUDGED, UNPARSABLE, place_of
from refusal_eval.judges.judge_base import Verdict
from refusal_eval.judges.verdict_files import readable, verdict_row

LabelRow = Mapping[str, Any]
Same = tuple[tuple[str, ...], str]  # what the user says, and the answer: white space around them does not matter


def same_answer(messages: Iterable[Mapping[str, str]], answer: str) -> Same:
    """Return by what answers of several files are taken for the same.

    System messages do not count: tables of people's labels seldom have them.
    """
    return tuple(one["content"].strip() for one in messages if one["role"] == "user"), answer.strip()


def labelled_answers(
    prompts: Iterable[LabelRow], answers: Iterable[LabelRow], verdicts: Iterable[LabelRow], names: Sequence[str]
) -> dict[Same, list[tuple[Sequence[str], LabelRow]]]:
    """Return the labelled answers of a cell, each with the names of its model and the verdict.

    Turns of dialogues are left out: gold has prompts of one turn.
    """
    asked = {prompt["id"]: prompt["messages"] for prompt in prompts if not prompt.get("dialogue")}
    texts = {place_of(row): row["answer"] for row in answers if row["prompt_id"] in asked}
    found: dict[Same, list[tuple[Sequence[str], LabelRow]]] = {}
    for verdict in verdicts:
        if verdict["label"] is not None and (place := place_of(verdict)) in texts:
            same = same_answer(asked[place[0]], texts[place])
            found.setdefault(same, []).append((names, verdict))
    return found


def verdicts_on_gold(
    gold: Iterable[LabelRow],
    answers: Iterable[LabelRow],
    labelled: Mapping[Same, Sequence[tuple[Sequence[str], LabelRow]]],
    name: str,
) -> list[dict[str, Any]]:
    """Return the verdict on each gold answer: the label of the same answer, of the same model where both name it.

    Answers without a label have none here, nor have those whose labels differ.

    Args:
        gold: the rows of the gold set.
        answers: its answers.
        labelled: of all cells.
        name: the gold's, for messages.

    Raises:
        UserError: if no gold answer has a label.
    """
    rows, verdicts = {row["id"]: row for row in gold}, list[dict[str, Any]]()
    for answer in readable(answers):
        row = rows[answer["prompt_id"]]
        every = labelled.get(same_answer(row["messages"], answer["answer"]), ())
        own = [verdict for names, verdict in every if row.get("answering_model") in names]
        same = own or [verdict for _, verdict in every]
        first = same[0] if len({verdict["label"] for verdict in same}) == 1 else None
        if first is None:
            why = "several labels were recorded" if same else "no label was recorded"
            verdicts.append(verdict_row(answer, Verdict(UNPARSABLE, None, raw={"error": why})))
        else:
            verdicts.append(verdict_row(answer, Verdict(JUDGED, first["label"], raw=first["raw"])))
    if not any(verdict["label"] for verdict in verdicts):
        raise UserError(
            f"none of the {len(verdicts)} answers of gold `{name}` is one that this judge has a label of; leave the "
            "gold or the judge out"
        )
    return verdicts
