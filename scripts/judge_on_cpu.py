"""Judge the answers of one cell with a judge that needs no engine: phrases, a fitted model, or a user's function."""

import logging

from refusal_eval.config.kinds import JUDGES
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_jsonl, write_jsonl
from refusal_eval.core.logs import start_log
from refusal_eval.core.states import JUDGE_FAILED, VERDICT_STATES, told_states
from refusal_eval.judges.conversations import read_conversations
from refusal_eval.judges.judge_base import AnswerJudge, verdict_row

LOG = logging.getLogger(__name__)


def main(
    prompts_path: str,
    answers_path: str,
    judge: AnswerJudge,
    output: str,
    fitted: str | None = None,
    unseen_path: str | None = None,
) -> None:
    """Write one verdict per answer that can be judged, in the order of the answers.

    Args:
        fitted: the model of a judge that learns.
        unseen_path: the verdicts of such a judge on the very gold that it was fitted on, each from a model that had not
            seen the like of that row: on its own gold they are its verdicts.

    Raises:
        UserError: if the judge failed on every answer.
    """
    said = {row["prompt_id"]: row for row in read_jsonl(unseen_path)} if unseen_path else {}
    asked = list(read_conversations(read_jsonl(prompts_path), read_jsonl(answers_path)))
    unsaid = [(messages, answer["answer"]) for answer, messages in asked if answer["prompt_id"] not in said]
    verdicts = iter(judge.judge_all(unsaid, fitted))
    rows = [said.get(answer["prompt_id"]) or verdict_row(answer, next(verdicts)) for answer, _ in asked]
    if rows and all(row["state"] == JUDGE_FAILED for row in rows):
        raise UserError(f"the judge failed on every answer; the first time with {rows[0]['raw'].get('error')}")
    write_jsonl(output, rows)
    LOG.info("%d verdicts: %s", len(rows), told_states(rows, VERDICT_STATES))


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    main(
        snakemake.input.prompts,
        snakemake.input.answers,
        JUDGES.entry(snakemake.params.judge["entry"]),
        snakemake.output[0],
        fitted=next(iter(snakemake.input.model), None),
        unseen_path=next(iter(snakemake.input.unseen), None),
    )
