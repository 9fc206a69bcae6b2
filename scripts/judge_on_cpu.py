"""Judge the answers of one cell with a judge that needs no engine: phrases, a fitted model, or a user's function."""

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_jsonl, write_jsonl
from refusal_eval.core.logs import start_log
from refusal_eval.core.states import JUDGE_FAILED, VERDICT_STATES, told_states
from refusal_eval.judges.conversations import read_conversations
from refusal_eval.judges.judge_base import CpuJudge, Messages, Verdict, judged_safely, verdict_row
from refusal_eval.judges.keyword_judge import KeywordJudge
from refusal_eval.judges.python_judge import PythonJudge

if TYPE_CHECKING:
    snakemake: Any

LOG = logging.getLogger(__name__)


def make_judge(entry: Mapping[str, Any], model_path: str | None = None) -> CpuJudge:
    """Return the judge that a catalogue entry describes; a trained one from the file of its fitted model."""
    if entry["kind"] == "keyword":
        return KeywordJudge.from_files(entry["lists"])
    if entry["kind"] == "trained":
        from refusal_eval.judges.trained_judge import TrainedJudge, load

        assert model_path is not None
        return TrainedJudge(load(model_path), KeywordJudge.from_files(entry["lists"]), entry["threshold"])
    return PythonJudge(entry["file"], entry["function"])


def verdicts_of(judge: CpuJudge, asked: Sequence[tuple[Mapping[str, Any], Messages]]) -> list[Verdict]:
    """Return the verdicts on (answer row, messages); all at once where the judge can, which is several times faster."""
    judge_all = getattr(judge, "judge_all", None)
    if judge_all is not None:
        return list(judge_all([answer["answer"] for answer, _ in asked]))
    return [judged_safely(judge, messages, answer["answer"]) for answer, messages in asked]


def main(prompts_path: str, answers_path: str, judge: CpuJudge, output: str, unseen_path: str | None = None) -> None:
    """Write one verdict per answer that can be judged, in the order of the answers.

    `unseen_path` has the verdicts of a trained judge on the very gold that it was fitted on, each from a model that had
    not seen the like of that row: on its own gold they are its verdicts.

    Raises:
        UserError: if the judge failed on every answer.
    """
    said = {row["prompt_id"]: row for row in read_jsonl(unseen_path)} if unseen_path else {}
    asked = list(read_conversations(read_jsonl(prompts_path), read_jsonl(answers_path)))
    unsaid = [(answer, messages) for answer, messages in asked if answer["prompt_id"] not in said]
    verdicts = iter(verdicts_of(judge, unsaid))
    rows = [said.get(answer["prompt_id"]) or verdict_row(answer, next(verdicts)) for answer, _ in asked]
    if rows and all(row["state"] == JUDGE_FAILED for row in rows):
        raise UserError(f"the judge failed on every answer; the first time with {rows[0]['raw'].get('error')}")
    write_jsonl(output, rows)
    LOG.info("%d verdicts: %s", len(rows), told_states(rows, VERDICT_STATES))


if "snakemake" in globals():
    start_log(snakemake)
    main(
        prompts_path=str(snakemake.input.prompts),
        answers_path=str(snakemake.input.answers),
        judge=make_judge(snakemake.params.judge, next(iter(snakemake.input.model), None)),
        output=str(snakemake.output[0]),
        unseen_path=next(iter(snakemake.input.unseen), None),
    )
