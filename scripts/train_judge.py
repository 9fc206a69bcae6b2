"""Fit a judge on gold, and say what it would have said about each gold row without having seen its like."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_jsonl, write_jsonl
from refusal_eval.core.logs import start_log
from refusal_eval.core.states import LABELS, SAW_MODEL
from refusal_eval.judges.judge_base import verdict_row
from refusal_eval.judges.keyword_judge import KeywordJudge
from refusal_eval.judges.trained_judge import Settings, fit, out_of_fold, save, verdict
from refusal_eval.stats.agreement.weighting import normalised

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

    A row that stands in two files counts once. Weights are brought to mean 1 in each file: the files count by their
    rows.

    Raises:
        UserError: for gold that nothing can be learned from.
    """
    files = [_with_weights(list(read_jsonl(path))) for path in gold_paths]
    rows = list({row["id"]: row for file in files for row in file if row["answer"].strip()}.values())
    keyword, chosen = KeywordJudge.from_files(lists), Settings(**settings)
    try:
        model = fit(rows, chosen, keyword)
        unseen = out_of_fold(rows, chosen, keyword)
    except UserError as error:
        raise UserError(f"{', '.join(gold_paths)}: {error}") from error
    said = [verdict(line, threshold) for line in unseen.probabilities]
    said = [
        replace(one, raw={**one.raw, SAW_MODEL: True}) if saw else one
        for one, saw in zip(said, unseen.saw_model, strict=True)
    ]
    write_jsonl(verdict_path, [verdict_row(_as_answer(row), one) for row, one in zip(rows, said, strict=True)])
    save(model, model_path)
    counts = ", ".join(f"{sum(row['label'] == label for row in rows)} {label}" for label in LABELS)
    models = len({row.get("answering_model") for row in rows})
    LOG.info("fitted on %d rows (%s) of %d answering models", len(rows), counts, models)
    kept = sorted({str(row.get("answering_model")) for row, saw in zip(rows, unseen.saw_model, strict=True) if saw})
    if kept:
        LOG.warning("nothing can be fitted without %s: out of fold by prompts only there", ", ".join(kept))


def _with_weights(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    weights = normalised([row.get("weight") or 1.0 for row in rows])
    return [{**row, "weight": weight} for row, weight in zip(rows, weights, strict=True)]


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
