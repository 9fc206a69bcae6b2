"""Turn the stored responses of one attribution into the values of words."""

from collections.abc import Mapping
from typing import Any

from refusal_eval.ask.requests import read_requests
from refusal_eval.ask.store import StoreReader, not_in_store, rejections, when_stored
from refusal_eval.core.files import read_jsonl, write_jsonl, written_whole
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.features.attributions.attribution_values import csv_of, log_of_sum, valued
from refusal_eval.features.attributions.own_replies import log_probability, own_replies
from refusal_eval.judges.named_tokens import shares_of


def main(files: Any, store_dir: str, how: Mapping[str, Any], outputs: Any) -> None:
    """Write a row for each prompt with its score and its units; and a CSV with a row for each unit.

    Args:
        files: the `requests`, the `prompts`, the `receipts` of their batch, and the model's `answers` where the score
            is of its reply.
        how: `unit` and `focus` of the attribution; of the reply, how many tokens count.
        outputs: `rows` and `table`.
    """
    file = read_requests(files.requests)
    requests = list(file.requests())
    engine_id = str(file.header["engine_id"])
    replies = own_replies(files.answers[0], store_dir, engine_id, how["reply"]) if "reply" in how else {}
    names = list(map(str, file.header["sampling"]["logprob_token_ids"]))

    def score_of(asked: str, response: Mapping[str, Any]) -> float | None:
        if "reply" in how:
            return log_probability(response, replies[asked if asked in replies else asked.rpartition(".")[0]])
        return log_of_sum(shares_of(response, names).values())

    records = StoreReader(store_dir, engine_id).lookup(one.key for one in requests if one.key)
    lost = {one.key for one in requests if one.key and one.key not in records}.difference(rejections(files.receipts))
    if lost:
        raise not_in_store(f"{len(lost)} of {len(requests)} responses are")
    scores: dict[str, float | None] = {}
    for one in requests:
        scores[one.prompt_id] = None
        if one.key in records:
            try:
                scores[one.prompt_id] = score_of(one.prompt_id, records[one.key]["response"])
            except ValueError as error:
                LOG.warning("prompt %s: %s", one.prompt_id, error)
    rows = [valued(prompt, scores, how["unit"], how["focus"]) for prompt in read_jsonl(files.prompts)]
    write_jsonl(outputs.rows, rows)
    with written_whole(outputs.table) as out:
        out.writelines(csv_of(rows))
    without = sum(any(one["value"] is None for one in row["units"]) or not row["units"] for row in rows)
    LOG.info("%d prompts, %d without values", len(rows), without)


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    files, store, how = snakemake.input, snakemake.config["store_dir"], snakemake.params.how
    out = snakemake.output
    when_stored(lambda: main(files, store, how, out))
