"""Turn a cell's stored responses into its answers."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from refusal_eval.ask.answers import AnswerReader, blank
from refusal_eval.ask.reasoning_check import refuse_no_answers
from refusal_eval.ask.requests import Request, read_requests
from refusal_eval.ask.store import BRING_BACK, StoreReader, rejections
from refusal_eval.ask.turns import Chain, Turns, walk
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json, write_jsonl
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.core.states import ANSWER_STATES, FAILED, TOO_LONG, told_states


def answer_row(request: Request, fields: Mapping[str, Any], record: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return one line of an answers file."""
    return {
        "prompt_id": request.prompt_id,
        "sample": request.sample,
        "turn": request.turn,
        "key": request.key,
        "serving": record["serving"] if record else None,
        **fields,
    }


def chain_rows(chain: Chain, turns: Turns, reader: AnswerReader) -> Iterator[dict[str, Any]]:
    """Yield the answers of one (prompt, sample): a row for every turn that is asked, come what may."""
    first = chain.answered[0][0] if chain.answered else chain.next
    assert first is not None
    for request, record in chain.answered:
        yield answer_row(request, reader.fields(request, record["response"]), record)
    done = {request.turn for request, _ in chain.answered}
    if chain.next is not None:
        yield answer_row(chain.next, blank(TOO_LONG if chain.next.key is None else FAILED))
        done.add(chain.next.turn)
    for turn in turns.asked(first.prompt_id):
        if turn not in done:  # the dialogue ended before it
            yield answer_row(Request(first.prompt_id, first.sample, turn, None, None), blank(FAILED))


def main(
    request_path: str,
    receipts: list[str],
    store_dir: str,
    tokenizer_folder: str | None,
    reasoning: Any,
    trust: bool,
    output: str,
) -> None:
    """Write the answers of one cell: a line per (prompt, sample, turn), in the order of the requests."""
    file = read_requests(request_path)
    turns = Turns(file, tokenizer_folder)
    chains = list(walk(turns, StoreReader(store_dir, file.header["engine_id"])))
    waiting = {chain.next.key for chain in chains if chain.next is not None and chain.next.key is not None}
    lost = waiting.difference(rejections(receipts))
    if lost:
        raise UserError(
            f"{len(lost)} of {len(chains)} responses are not in the store, although they were executed "
            f"(was the store moved or pruned?). {BRING_BACK}"
        )
    reader = AnswerReader(tokenizer_folder, reasoning, trust)
    rows = [row for chain in chains for row in chain_rows(chain, turns, reader)]
    if reasoning is not None:
        refuse_no_answers(Path(request_path).parent.name, rows)
    write_jsonl(output, rows)
    LOG.info("%d answers: %s", len(rows), told_states(rows, ANSWER_STATES))


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    folder, how = read_json(snakemake.input.engine)["tokenizer_folder"], snakemake.params.segments
    main(
        snakemake.input.requests,
        snakemake.input.receipts,
        snakemake.config["store_dir"],
        folder,
        how["reasoning"],
        how["trust_remote_code"],
        snakemake.output[0],
    )
