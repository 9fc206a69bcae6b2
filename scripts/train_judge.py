"""Fit a judge on gold, and say what it would have said about each gold row without having seen its like."""

from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.config.kinds import JUDGES
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_jsonl, write_jsonl
from refusal_eval.core.logs import start_log
from refusal_eval.judges.judge_base import AnswerJudge
from refusal_eval.stats.agreement.weighting import normalised


def main(judge: AnswerJudge, gold_paths: Sequence[str], model_path: str, verdict_path: str) -> None:
    """Write the model fitted on all gold files together, and verdicts on their rows that did not see their like.

    Weights are brought to mean 1 in each file: the files count by their rows.

    Raises:
        UserError: for gold that nothing can be learned from.
    """
    try:
        verdicts = judge.fit_on([_with_weights(list(read_jsonl(path))) for path in gold_paths], model_path)
    except UserError as error:
        raise UserError(f"{', '.join(gold_paths)}: {error}") from error
    write_jsonl(verdict_path, verdicts)


def _with_weights(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    weights = normalised([row.get("weight") or 1.0 for row in rows])
    return [{**row, "weight": weight} for row, weight in zip(rows, weights, strict=True)]


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    judge = JUDGES.entry(snakemake.params.judge["entry"])
    main(judge, snakemake.input.gold, snakemake.output.model, snakemake.output.verdicts)
