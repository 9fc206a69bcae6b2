"""Check that a judge can be asked, before any GPU hour is spent: its labels or classes, its instructions."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from refusal_eval.ask.render import Renderer
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json, sha256_of_file, write_json
from refusal_eval.core.logs import start_log
from refusal_eval.core.rubric import Rubric
from refusal_eval.judges.classifier_judge import class_names, labels_of_classes
from refusal_eval.judges.judge_kinds import engine_judge
from refusal_eval.judges.llm_judge import label_token_ids
from refusal_eval.judges.reasoned_judge import mark_token_ids

if TYPE_CHECKING:
    snakemake: Any

LOG = logging.getLogger(__name__)


def main(engine: Mapping[str, Any], reading: Mapping[str, Any], output: str) -> None:
    """Write how long the judge's instructions are, and what else its requests and verdicts need.

    The tokens of its labels (`llm`), what its classes stand for (`classifier`), the tokens around its own reasoning.

    Raises:
        UserError: for labels or marks of harmony that are no single tokens, classes without a label, and instructions
            that leave no room.
    """
    renderer = Renderer.from_params(engine["tokenizer_folder"], reading, untrusted=True)
    checked: dict[str, Any] = {}
    if reading["kind"] == "llm":
        checked["label_token_ids"] = label_token_ids(renderer, Rubric(reading["rubric"]), reading["labels"])
        LOG.info("labels %s", checked["label_token_ids"])
    if reading["kind"] == "classifier":
        names = class_names(engine["tokenizer_folder"])
        checked |= {"classes": labels_of_classes(reading["labels"], names), "class_names": names}
    if reading.get("reasoning"):
        checked["marks"] = mark_token_ids(renderer.tokenizer, reading["reasoning"])
    judge = engine_judge(reading, checked)
    length = len(renderer.token_ids(judge.messages([{"role": "user", "content": ""}], "")))
    room, written = reading["max_model_len"], judge.sampling()["max_tokens"]
    if length + written > room:
        what = f"rubric {reading['rubric']}" if "rubric" in reading else "the judge's format"
        raise UserError(
            f"{what} alone takes {length} tokens and the verdict up to {written}, "
            f"and max_model_len of the judge's engine is {room}"
        )
    LOG.info("the instructions take %d tokens", length)
    if "rubric" in reading:
        checked["rubric_sha256"] = sha256_of_file(reading["rubric"])
    write_json(output, {**checked, "rubric_tokens": length})


if "snakemake" in globals():
    start_log(snakemake)
    main(
        engine=read_json(snakemake.input.engine),
        reading=snakemake.params.reading,
        output=str(snakemake.output[0]),
    )
