"""Judge the answers of one cell with a judge that needs no engine: phrases, or a user's function."""

import time
from collections.abc import Mapping
from typing import Any

from refusal_eval.config.kinds import JUDGES
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import as_planned, read_json, read_jsonl
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.core.states import JUDGE_FAILED
from refusal_eval.judges.conversations import read_conversations
from refusal_eval.judges.judge_base import AnswerJudge
from refusal_eval.judges.learning_judge import LearningJudge
from refusal_eval.judges.verdict_files import verdict_row, write_verdicts
from refusal_eval.stats.calibration.applied import calibrated_row
from refusal_eval.study.batches import GOLD


def main(
    prompts_path: str,
    answers_path: str,
    judge: AnswerJudge | LearningJudge,
    output: str,
    scored: str = "all",
    fitted: str | None = None,
    unseen: Mapping[str, Any] | None = None,
    calibration: Mapping[str, Any] | None = None,
) -> None:
    """Write one verdict per answer that can be judged and counts (`scored`), in the order of the answers.

    Args:
        fitted: the file of a judge that the run fits on gold.
        unseen: on gold, the verdicts of such a judge on rows with a prompt that it was fitted on, by prompt; None
            elsewhere.
        calibration: of a judge whose threshold is fitted on gold; None on gold, and for others.

    Raises:
        UserError: if the judge failed on every answer.
    """
    asked = list(read_conversations(read_jsonl(prompts_path), read_jsonl(answers_path), scored))
    started = time.process_time()
    read = [(messages, answer["answer"]) for answer, messages in asked]
    if isinstance(judge, LearningJudge):
        verdicts = judge.judge_fitted(read, fitted, unseen is not None)
    else:
        verdicts = judge.judge_all(read)
    LOG.info("judged %d answers in %.3f s of processor time", len(asked), time.process_time() - started)
    rows = [
        (unseen or {}).get(answer["prompt_id"]) or verdict_row(answer, verdict)
        for (answer, _), verdict in zip(asked, verdicts, strict=True)
    ]
    if calibration:
        rows = [calibrated_row(row, calibration) for row in rows]
    if rows and all(row["state"] == JUDGE_FAILED for row in rows):
        raise UserError(f"the judge failed on every answer; the first time with {rows[0]['raw'].get('error')}")
    write_verdicts(output, rows)


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    files, asked = snakemake.input, snakemake.params.judge
    with as_planned(files.files, asked["sha256"]):
        judge, scored = JUDGES.entry(asked["entry"]), asked.get("scored", "all")
        said = {row["prompt_id"]: row for path in files.unseen for row in read_jsonl(path)}
        unseen = said if snakemake.wildcards.model == GOLD else None
        fitted, calibration = next(iter(files.model), None), next(map(read_json, files.calibration), None)
        main(files.prompts, files.answers, judge, snakemake.output[0], scored, fitted, unseen, calibration)
