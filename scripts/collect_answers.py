"""Turn a cell's stored responses into its answers."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from refusal_eval.ask.answers import CONTENT_FILTER, AnswerReader, blank
from refusal_eval.ask.hidden_marks import added_tokens, hidden_marks
from refusal_eval.ask.reasoning_check import refuse_judged_reasoning, refuse_no_answers
from refusal_eval.ask.reasoning_marks import ReasoningMark
from refusal_eval.ask.requests import Request, read_requests
from refusal_eval.ask.store import StoreReader, not_in_store, rejections, when_stored
from refusal_eval.ask.turns import Chain, Turns, walk
from refusal_eval.core.files import read_json, write_jsonl
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.core.states import ANSWER_STATES, BLOCKED, EARLIER_TURN, FAILED, NOBODY, TOO_LONG, state_counts


def answer_row(request: Request, fields: Mapping[str, Any], record: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return one line of an answers file."""
    version = record and record["response"].get("model_version")
    return {
        "prompt_id": request.prompt_id,
        "sample": request.sample,
        "turn": request.turn,
        "key": request.key,
        "serving": record["serving"] if record else None,
        **({"model_version": version} if version else {}),
        **fields,
    }


def chain_rows(chain: Chain, turns: Turns, reader: AnswerReader) -> Iterator[dict[str, Any]]:
    """Yield the answers of one (prompt, sample): a row for every turn that is asked, come what may.

    Turns behind one that was blocked are blocked by the same, at the stage `earlier_turn`.
    """
    first = chain.first
    for request, record in chain.answered:
        yield answer_row(request, reader.fields(request, record["response"]), record)
    done = {request.turn for request, _ in chain.answered}
    if chain.next is not None:
        yield answer_row(chain.next, blank(TOO_LONG if chain.next.key is None else FAILED))
        done.add(chain.next.turn)
    last = chain.answered[-1][1]["response"] if chain.answered and chain.next is None else {}
    unasked = blank(FAILED)
    if last.get("finish_reason") == CONTENT_FILTER:
        block = NOBODY | (last.get("blocked") or {})
        unasked = blank(BLOCKED) | {"blocked": block | {"stage": EARLIER_TURN, "partial": None}}
    for turn in turns.asked(first.prompt_id):
        if turn not in done:  # its prompt ended before it
            yield answer_row(Request(first.prompt_id, first.sample, turn, None, None), unasked)


def main(files: Any, store_dir: str, tokenizer_folder: str | None, how: Mapping[str, Any], output: str) -> None:
    """Write the answers of one cell: a line per (prompt, sample, turn), in the order of the requests.

    Args:
        files: the cell's `requests`, and the `receipts` of their batch.
        tokenizer_folder: folder of the model's tokenizer; None for an engine that takes messages.
        how: the model's `reasoning`, `trust_remote_code`, and where responses are judged whole, whatever marks they
            hold, `protocol` or `judged_whole`.
    """
    file, model, reasoning = read_requests(files.requests), Path(files.requests).parent.name, how["reasoning"]
    turns, reader = Turns(file, tokenizer_folder), AnswerReader(tokenizer_folder, reasoning, how["trust_remote_code"])
    rows, waiting, chains = list[dict[str, Any]](), set[str](), 0
    checked = reasoning is None and not {"protocol", "judged_whole"} & set(how)
    added = added_tokens(tokenizer_folder) if checked and tokenizer_folder is not None else {}
    hidden: dict[str | None, set[ReasoningMark]] = {}
    for chain in walk(turns, StoreReader(store_dir, file.header["engine_id"])):
        chains += 1
        if chain.next is not None and chain.next.key is not None:
            waiting.add(chain.next.key)
        rows += chain_rows(chain, turns, reader)
        hidden |= {one.key: hidden_marks(record["response"]["token_ids"], added) for one, record in chain.answered}
    if lost := waiting.difference(rejections(files.receipts)):
        raise not_in_store(f"{len(lost)} of {chains} responses are")
    if reasoning is not None:
        refuse_no_answers(model, rows)
    elif checked:  # the published code judges such responses whole
        refuse_judged_reasoning(model, [row | {"hidden_marks": hidden.get(row["key"], set())} for row in rows])
    write_jsonl(output, rows)
    LOG.info("%d answers: %s", len(rows), state_counts(rows, ANSWER_STATES))


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    folder = read_json(snakemake.input.engine)["tokenizer_folder"]
    files, store, how = snakemake.input, snakemake.config["store_dir"], snakemake.params.segments
    out = snakemake.output[0]
    when_stored(lambda: main(files, store, folder, how, out))
