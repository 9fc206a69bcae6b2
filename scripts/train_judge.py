"""Fit a judge on gold, and say what it would have said about each gold row without having seen its like."""

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from refusal_eval.errors import UserError
from refusal_eval.files import read_jsonl, write_jsonl
from refusal_eval.judges.base import verdict_row
from refusal_eval.judges.keyword import KeywordJudge
from refusal_eval.judges.trained import Settings, fit, out_of_fold, save, verdict
from refusal_eval.logs import start_log
from refusal_eval.states import LABELS

if TYPE_CHECKING:
    snakemake: Any

LOG = logging.getLogger(__name__)


def main(
    gold_paths: Sequence[str],
    lists: Sequence[str],
    settings: Mapping[str, Any],
    threshold: float,
    model_path: str,
    verdict_path: str,
) -> None:
    """Write the model fitted on all gold files together, and the out-of-fold verdicts on their rows.

    A row that stands in two files counts once.

    Raises:
        UserError: for gold that nothing can be learned from.
    """
    files = [list(read_jsonl(path)) for path in gold_paths]
    rows = list({row["id"]: row for file in files for row in file if row["answer"].strip()}.values())
    keyword, chosen = KeywordJudge.from_files(lists), Settings(**settings)
    try:
        model = fit(rows, chosen, keyword)
        probabilities = out_of_fold(rows, chosen, keyword)
    except UserError as error:
        raise UserError(f"{', '.join(gold_paths)}: {error}") from error
    said = {row["id"]: verdict(line, threshold) for row, line in zip(rows, probabilities, strict=True)}
    write_jsonl(verdict_path, [verdict_row(_as_answer(row), said[row["id"]]) for row in rows])
    save(model, model_path)
    counts = ", ".join(f"{sum(row['label'] == label for row in rows)} {label}" for label in LABELS)
    models = len({row.get("answering_model") for row in rows})
    LOG.info("fitted on %d rows (%s) of %d answering models", len(rows), counts, models)


def _as_answer(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"prompt_id": row["id"], "sample": 0, "turn": 0}


if "snakemake" in globals():
    start_log(snakemake)
    main(
        gold_paths=[str(path) for path in snakemake.input.gold],
        lists=[str(path) for path in snakemake.params.judge["lists"]],
        settings={},
        threshold=snakemake.params.judge["threshold"],
        model_path=str(snakemake.output.model),
        verdict_path=str(snakemake.output.verdicts),
    )
