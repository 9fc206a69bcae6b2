"""Turn a judge's stored responses into the verdicts on one cell."""

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from refusal_eval.errors import UserError
from refusal_eval.files import read_json, read_jsonl, write_jsonl
from refusal_eval.judges.base import Verdict, readable, verdict_row
from refusal_eval.judges.llm import label_verdict
from refusal_eval.logs import start_log
from refusal_eval.requests import read_requests
from refusal_eval.states import JUDGE_FAILED, VERDICT_STATES, told_states
from refusal_eval.store import StoreReader

if TYPE_CHECKING:
    snakemake: Any

LOG = logging.getLogger(__name__)


def rejections(receipts: Iterable[str]) -> dict[str, str]:
    """Return the message of each request that the engine rejected for its own sake, by key."""
    return {row["key"]: row["message"] for path in receipts for row in read_json(path)["rejected"]}


def main(
    answers_path: str,
    request_path: str,
    receipts: list[str],
    store_dir: str,
    labels: list[str],
    decision: Mapping[str, float],
    output: str,
) -> None:
    """Write one verdict per answer that could be read, in the order of the answers."""
    file = read_requests(request_path)
    keys = {(r.prompt_id, r.sample, r.turn): r.key for r in file.requests()}
    records = StoreReader(store_dir, file.header["engine_id"]).lookup(key for key in keys.values() if key is not None)
    rejected = rejections(receipts)
    rows = []
    for answer in readable(read_jsonl(answers_path)):
        key = keys[(answer["prompt_id"], answer["sample"], answer["turn"])]
        if key is None:
            verdict = Verdict(JUDGE_FAILED, raw={"error": "the answer does not fit the judge's max_model_len"})
        elif key in records:
            verdict = label_verdict(records[key]["response"], labels, decision["threshold"], decision["mass_floor"])
        elif key in rejected:
            verdict = Verdict(JUDGE_FAILED, raw={"error": rejected[key]})
        else:
            raise UserError(
                "a verdict's response is not in the store, although it was executed (was the store moved or pruned?). "
                "Delete the receipts folder of this study and run again."
            )
        rows.append(verdict_row(answer, verdict, key))
    write_jsonl(output, rows)
    LOG.info("%d verdicts: %s", len(rows), told_states(rows, VERDICT_STATES))


if "snakemake" in globals():
    start_log(snakemake)
    main(
        answers_path=str(snakemake.input.answers),
        request_path=str(snakemake.input.requests),
        receipts=[str(path) for path in snakemake.input.receipts],
        store_dir=snakemake.config["store_dir"],
        labels=list(read_json(snakemake.input.judge)["label_token_ids"]),
        decision=snakemake.params.decision,
        output=str(snakemake.output[0]),
    )
