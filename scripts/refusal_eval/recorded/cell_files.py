"""What is checked and written of a cell whose answers were drawn elsewhere, however they were read."""

from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.ask.reasoning_check import refuse_judged_reasoning, refuse_no_answers
from refusal_eval.core.files import write_jsonl
from refusal_eval.core.logs import LOG
from refusal_eval.core.states import ANSWER_STATES, state_counts

WHOLE = {"protocol", "judged_whole"}  # keys of a reading under which texts are judged whole, whatever marks they hold


def refuse_other_marks(reading: Mapping[str, Any], answers: Sequence[Mapping[str, Any]]) -> None:
    """Raise `UserError` if most answers hold marks of reasoning that the model's entry lacks, or lack those it has.

    Args:
        reading: the model's `model` name and `reasoning`, and perhaps one of `WHOLE`.
    """
    if WHOLE & set(reading):
        return
    if reading["reasoning"] is None:
        refuse_judged_reasoning(reading["model"], answers)
    else:
        refuse_no_answers(reading["model"], answers)


def write_cell(
    marks: Mapping[str, Any] | None,
    answers: Sequence[Mapping[str, Any]],
    likely: Sequence[Mapping[str, Any]],
    output: str,
    published: str,
) -> None:
    """Write answers, and what is known of their probabilities below a header.

    Args:
        marks: the model's `reasoning`.
    """
    write_jsonl(published, [{"end_mark": marks["end"] if marks is not None else None}, *likely])
    write_jsonl(output, answers)
    LOG.info("%d answers: %s", len(answers), state_counts(answers, ANSWER_STATES))
