"""Turn the stored responses about a model's refusal tokens into the tokens' log-probabilities behind each prompt."""

from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.ask.requests import read_requests
from refusal_eval.ask.store import StoreReader, not_in_store, rejections, when_stored
from refusal_eval.core.files import write_jsonl
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.core.packing import unpack_floats
from refusal_eval.judges.named_tokens import shares_of


def logprobs_of(response: Mapping[str, Any], tokens: Sequence[str]) -> dict[str, float]:
    """Return the log-probability of each token, as the engine gave it.

    Raises:
        ValueError: if there is not one for each.
    """
    shares_of(response, tokens)
    return dict(zip(tokens, unpack_floats(response["named_logprobs"]).tolist(), strict=True))


def main(files: Any, store_dir: str, tokens: Sequence[str], output: str) -> None:
    """Write a row for each prompt: the log-probability of each token, None where the engine could not be asked.

    Args:
        files: the `requests`, and the `receipts` of their batch.
        tokens: what the tokens are called, in the order in which they were asked for.
    """
    file = read_requests(files.requests)
    requests = list(file.requests())
    records = StoreReader(store_dir, file.header["engine_id"]).lookup(one.key for one in requests if one.key)
    lost = {one.key for one in requests if one.key and one.key not in records}.difference(rejections(files.receipts))
    if lost:
        raise not_in_store(f"{len(lost)} of {len(requests)} responses are")
    rows = []
    for one in requests:
        response = records[one.key]["response"] if one.key in records else None
        try:
            found = logprobs_of(response, tokens) if response else None
        except ValueError as error:
            LOG.warning("prompt %s: %s", one.prompt_id, error)
            found = None
        rows.append({"prompt_id": one.prompt_id, "key": one.key, "logprobs": found})
    write_jsonl(output, rows)
    LOG.info("%d prompts, %d without probabilities", len(rows), sum(row["logprobs"] is None for row in rows))


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    files, store, names = snakemake.input, snakemake.config["store_dir"], snakemake.params.tokens
    out = snakemake.output[0]
    when_stored(lambda: main(files, store, names, out))
