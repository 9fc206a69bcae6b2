"""Check that a judge's labels are single tokens that can follow its prompt, before any GPU hour is spent."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from refusal_eval.errors import UserError
from refusal_eval.files import read_json, sha256_of_file, write_json
from refusal_eval.judges.llm import Rubric, label_token_ids
from refusal_eval.logs import start_log
from refusal_eval.render import Renderer

if TYPE_CHECKING:
    snakemake: Any

LOG = logging.getLogger(__name__)


def main(engine: Mapping[str, Any], rubric_path: str, reading: Mapping[str, Any], output: str) -> None:
    """Write the judge's label token ids and how long its rubric is."""
    renderer = Renderer.from_params(engine["tokenizer_folder"], reading, untrusted=True)
    rubric = Rubric(rubric_path)
    token_ids = label_token_ids(renderer, rubric, reading["labels"])
    empty = [{"role": "user", "content": rubric.text([{"role": "user", "content": ""}], "")}]
    length = len(renderer.token_ids(empty))
    if length >= reading["max_model_len"]:
        raise UserError(
            f"rubric {rubric_path} alone takes {length} tokens, "
            f"and max_model_len of the judge's engine is {reading['max_model_len']}"
        )
    LOG.info("labels %s; the rubric takes %d tokens", token_ids, length)
    checked = {"label_token_ids": token_ids, "rubric_sha256": sha256_of_file(rubric_path), "rubric_tokens": length}
    write_json(output, checked)


if "snakemake" in globals():
    start_log(snakemake)
    main(
        engine=read_json(snakemake.input.engine),
        rubric_path=str(snakemake.input.rubric),
        reading=snakemake.params.reading,
        output=str(snakemake.output[0]),
    )
