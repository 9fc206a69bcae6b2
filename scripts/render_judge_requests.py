"""Render a judge's prompts for the answers of one cell and write the verdict requests."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from refusal_eval.files import read_json, read_jsonl
from refusal_eval.judges.conversations import read_conversations
from refusal_eval.judges.llm import Rubric, judge_sampling
from refusal_eval.logs import start_log
from refusal_eval.render import Renderer
from refusal_eval.requests import Ask, write_requests

if TYPE_CHECKING:
    snakemake: Any

LOG = logging.getLogger(__name__)


def main(
    prompts_path: str,
    answers_path: str,
    engine: Mapping[str, Any],
    rubric_path: str,
    labels: Mapping[str, int],
    reading: Mapping[str, Any],
    output: str,
) -> None:
    """Write one request per answer that can be judged; nothing is drawn, so equal answers share a request."""
    # Answers are data: control tokens in them must not speak to the judge.
    renderer = Renderer.from_params(engine["tokenizer_folder"], reading, untrusted=True)
    rubric = Rubric(rubric_path)
    asks = []
    for answer, messages in read_conversations(read_jsonl(prompts_path), read_jsonl(answers_path)):
        text = rubric.text(messages, answer["answer"])
        token_ids = renderer.token_ids([{"role": "user", "content": text}])
        asks.append(Ask(answer["prompt_id"], token_ids, [(answer["sample"], None)], answer["turn"]))
    sampling = judge_sampling(labels)
    counts = write_requests(output, asks, engine, sampling, reading["determinism"], reading["max_model_len"])
    LOG.info("%d verdict requests", counts["requests"])
    if counts["too_long"]:
        LOG.warning("%d answers are too long for the judge and will be in state judge_failed", counts["too_long"])


if "snakemake" in globals():
    start_log(snakemake)
    main(
        prompts_path=str(snakemake.input.prompts),
        answers_path=str(snakemake.input.answers),
        engine=read_json(snakemake.input.engine),
        rubric_path=str(snakemake.input.rubric),
        labels=read_json(snakemake.input.judge)["label_token_ids"],
        reading=snakemake.params.reading,
        output=str(snakemake.output[0]),
    )
