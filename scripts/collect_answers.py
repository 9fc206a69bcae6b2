"""Turn a cell's stored responses into its answers."""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refusal_eval.answers import Marks, answer_of, blank, ends_open
from refusal_eval.errors import UserError
from refusal_eval.files import read_json, write_jsonl
from refusal_eval.logs import start_log
from refusal_eval.render import Renderer
from refusal_eval.requests import Request, read_requests
from refusal_eval.states import ANSWER_STATES, FAILED, TOO_LONG, told_states
from refusal_eval.store import StoreReader

if TYPE_CHECKING:
    snakemake: Any

LOG = logging.getLogger(__name__)


def answer_row(
    request: Request, record: Mapping[str, Any] | None, marks: Marks, renderer: Renderer | None
) -> dict[str, Any]:
    """Return one line of an answers file."""
    if record is None:
        fields = blank(TOO_LONG if request.key is None else FAILED)
    else:

        def decode(ids: Any) -> str:
            assert renderer is not None
            return renderer.decode(ids)

        fields = answer_of(record["response"], marks, ends_open(request.token_ids, marks), decode)
    return {
        "prompt_id": request.prompt_id,
        "sample": request.sample,
        "turn": request.turn,
        "key": request.key,
        "serving": record["serving"] if record else None,
        **fields,
    }


def rejected_keys(receipts: Iterable[str]) -> set[str]:
    """Return the keys that the engine rejected for their own sake; they have no response and never will."""
    return {row["key"] for path in receipts if Path(path).is_file() for row in read_json(path)["rejected"]}


def marks_of(reasoning: Mapping[str, Any] | None, renderer: Renderer | None) -> Marks:
    """Return the token ids of a model's reasoning marks."""
    if not reasoning or renderer is None:
        return Marks()

    def ids(text: str | None) -> tuple[int, ...]:
        return tuple(renderer.tokenizer(text, add_special_tokens=False)["input_ids"]) if text else ()

    return Marks(start=ids(reasoning.get("start")), end=ids(reasoning["end"]))


def main(
    request_path: str,
    receipts: list[str],
    store_dir: str,
    tokenizer_folder: str,
    reasoning: Any,
    trust: bool,
    output: str,
) -> None:
    """Write the answers of one cell: a line per (prompt, sample, turn), in the order of the requests."""
    file = read_requests(request_path)
    requests = list(file.requests())
    records = StoreReader(store_dir, file.header["engine_id"]).lookup(r.key for r in requests if r.key is not None)
    lost = {r.key for r in requests if r.key is not None} - set(records) - rejected_keys(receipts)
    if lost:
        raise UserError(
            f"{len(lost)} of {len(requests)} responses are not in the store, although they were executed "
            "(was the store moved or pruned?). Delete the receipts folder of this study and run again."
        )
    # Only reasoning models need their tokens decoded again; the others are spared loading the tokenizer.
    renderer = Renderer(tokenizer_folder, template="none", trust_remote_code=trust) if reasoning else None
    marks = marks_of(reasoning, renderer)
    rows = [answer_row(r, records.get(r.key) if r.key else None, marks, renderer) for r in requests]
    write_jsonl(output, rows)
    LOG.info("%d answers: %s", len(rows), told_states(rows, ANSWER_STATES))


if "snakemake" in globals():
    start_log(snakemake)
    main(
        request_path=str(snakemake.input.requests),
        receipts=[str(path) for path in snakemake.input.receipts],
        store_dir=snakemake.config["store_dir"],
        tokenizer_folder=read_json(snakemake.input.engine)["tokenizer_folder"],
        reasoning=snakemake.params.segments["reasoning"],
        trust=snakemake.params.segments["trust_remote_code"],
        output=str(snakemake.output[0]),
    )
