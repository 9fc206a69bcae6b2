"""Fit a judge on gold, and say what it would have said about each gold row without having seen its like."""

from collections.abc import Container, Mapping, Sequence
from typing import Any

from refusal_eval.ask.requests import read_requests
from refusal_eval.ask.store import StoreReader, not_in_store, rejections, when_stored
from refusal_eval.config.kinds import JUDGES
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import as_planned, read_jsonl, write_jsonl
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.judges.learning_judge import LearningJudge
from refusal_eval.stats.agreement.weighting import normalise


def main(
    judge: LearningJudge,
    gold_paths: Sequence[str],
    request_paths: Sequence[str],
    receipts: Sequence[str],
    store_dir: str,
    model_path: str,
    verdict_path: str,
    other_paths: Sequence[str] = (),
) -> None:
    """Write the model fitted on all gold files together, and verdicts on their rows that did not see their like.

    Weights are brought to mean 1 in each file: the files count by their rows. `other_paths` are gold that it does not
    learn from: of their rows, those with a prompt of its gold get such a verdict, too. `request_paths` are of both.

    Raises:
        UserError: for gold that nothing can be learned from.
    """
    gold = [_with_weights(list(read_jsonl(path))) for path in gold_paths]
    rejected = rejections(receipts)
    seen = {id_: one for path in request_paths for id_, one in seen_of(judge, path, store_dir, rejected).items()}
    if unread := {row["id"] for rows in gold for row in rows} - set(seen):
        LOG.warning("%d gold rows are left out: they are empty, or the encoder could not read them", len(unread))
    others = (row for path in other_paths for row in read_jsonl(path))
    try:
        verdicts = judge.fit_on(gold, seen, model_path, others)
    except UserError as error:
        raise UserError(f"{', '.join(gold_paths)}: {error}") from error
    write_jsonl(verdict_path, verdicts)


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
        when_stored(lambda: main(judge, files.gold, files.requests, files.receipts, store_dir, *written, files.others))
