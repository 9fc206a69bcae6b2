"""Fit a judge on gold, and say what it would have said about each gold row without having seen its like."""

from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.ask.requests import read_requests
from refusal_eval.ask.store import StoreReader, not_in_store, rejections, when_stored
from refusal_eval.config.kinds import JUDGES
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import as_planned, read_jsonl, write_jsonl
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.core.texts import is_blank
from refusal_eval.judges.learning_judge import GoldSet, LearningJudge
from refusal_eval.stats.agreement.weighting import normalise


def main(
    judge: LearningJudge,
    gold: Sequence[GoldSet],
    others: Sequence[GoldSet],
    request_paths: Sequence[str],
    receipts: Sequence[str],
    store_dir: str,
    model_path: str,
    verdict_path: str,
) -> None:
    """Write the model fitted on all gold together, and verdicts on its rows that did not see their like.

    Weights are brought to mean 1 in each gold: they count by their rows.

    Args:
        others: gold that it does not learn from; rows with a prompt of its gold get such a verdict, too.
        request_paths: those about the rows of both; none for a judge without an engine.

    Raises:
        UserError: for gold that nothing can be learned from.
    """
    gold = [one._replace(rows=_with_weights(one.rows)) for one in gold]
    rejected = rejections(receipts)
    seen = {id_: one for path in request_paths for id_, one in seen_of(judge, path, store_dir, rejected).items()}
    rows = [row for one in gold for row in one.rows]
    unread = {row["id"] for row in rows if (row["id"] not in seen if request_paths else is_blank(row["answer"]))}
    if unread:
        LOG.warning("%d gold rows are left out: they are empty, or the encoder could not read them", len(unread))
    try:
        verdicts = judge.fit_on(gold, seen, model_path, others)
    except UserError as error:
        raise UserError(f"gold {', '.join(one.name for one in gold)}: {error}") from error
    write_jsonl(verdict_path, verdicts)


def read_gold(paths: Sequence[str], about: Mapping[str, Mapping[str, Any]]) -> list[GoldSet]:
    """Return the gold of these files, which are named after it, with what else is known of each."""
    return [GoldSet(Path(path).stem, list(read_jsonl(path)), **about[Path(path).stem]) for path in paths]


def seen_of(judge: LearningJudge, request_path: str, store_dir: str, rejected: Container[str]) -> dict[str, Any]:
    """Return what a judge learns from of each gold row that its engine has answered, by the row's id.

    Args:
        request_path: the requests about a gold file.
        rejected: keys of requests that the engine rejected.

    Raises:
        UserError: if a response is missing that was executed.
    """
    file = read_requests(request_path)
    requests = [request for request in file.requests() if request.key is not None and request.key not in rejected]
    found = StoreReader(store_dir, file.header["engine_id"]).lookup(str(request.key) for request in requests)
    if lost := sum(request.key not in found for request in requests):
        raise not_in_store(f"{lost} of {len(requests)} responses are")
    return {r.prompt_id: judge.seen_in(found[str(r.key)]["response"]) for r in requests}


def _with_weights(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    weights = normalise([row.get("weight") or 1.0 for row in rows])
    return [{**row, "weight": weight} for row, weight in zip(rows, weights, strict=True)]


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    files, made = snakemake.input, snakemake.output
    judge = JUDGES.entry(snakemake.params.judge["entry"])
    store_dir, written = snakemake.config["store_dir"], (made.model, made.verdicts)
    with as_planned(files.files, snakemake.params.judge["sha256"]):
        gold, others = (read_gold(paths, snakemake.params.judge["about"]) for paths in (files.gold, files.others))
        when_stored(lambda: main(judge, gold, others, files.requests, files.receipts, store_dir, *written))
