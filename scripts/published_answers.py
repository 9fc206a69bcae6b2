"""Take one cell's stored responses as the published code would: the probabilities of their parts."""

import functools
from collections.abc import Mapping
from typing import Any

from refusal_eval.ask.render import Renderer
from refusal_eval.ask.requests import read_requests
from refusal_eval.ask.store import StoreReader, not_in_store, when_stored
from refusal_eval.ask.turns import Turns, walk
from refusal_eval.core.files import read_json, read_jsonl, write_jsonl
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.core.states import place_of
from refusal_eval.features.published.published_score import response_rows


def main(
    request_path: str, answers_path: str, store_dir: str, tokenizer_folder: str, reading: Mapping[str, Any], output: str
) -> None:
    """Write a header and a line per response.

    Args:
        answers_path: the cell's answers, which tell what responses there were.
        reading: the model's `end_mark` and `trust_remote_code`.

    Raises:
        NotInStore: if one of them is missing: its prompt would be in no denominator.
    """
    file = read_requests(request_path)
    chains = list(walk(Turns(file, tokenizer_folder), StoreReader(store_dir, file.header["engine_id"])))
    responses = [(request.place, response) for chain in chains for request, response in chain.responses]
    answered = {place_of(row) for row in read_jsonl(answers_path) if row["serving"] is not None}
    if lost := answered.difference(place for place, _ in responses):
        raise not_in_store(f"{len(lost)} of {len(answered)} responses are")
    renderer = None
    if reading["end_mark"] is not None:
        renderer = Renderer(tokenizer_folder, template="none", trust_remote_code=reading["trust_remote_code"])

    @functools.cache
    def token_text(token: int) -> str:
        assert renderer is not None
        return str(renderer.tokenizer.decode([token]))

    rows = response_rows(responses, reading["end_mark"], token_text)
    write_jsonl(output, [{"end_mark": reading["end_mark"]}, *rows])
    without = sum(row["answer_prob"] <= 0 for row in rows)
    LOG.info("%d responses, %d of them without answer tokens", len(rows), without)


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    files, store = snakemake.input, snakemake.config["store_dir"]
    folder, reading, out = read_json(files.engine)["tokenizer_folder"], snakemake.params.published, snakemake.output[0]
    when_stored(lambda: main(files.requests, files.answers, store, folder, reading, out))
