"""Render a judge's prompts for the answers of one cell and write the verdict requests."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from refusal_eval.ask.render import Renderer, stop_token_ids
from refusal_eval.ask.requests import Ask, RequestSettings, write_requests
from refusal_eval.core.files import read_json, read_jsonl
from refusal_eval.core.logs import start_log
from refusal_eval.judges.conversations import read_conversations
from refusal_eval.judges.cutting import fitted
from refusal_eval.judges.judge_kinds import engine_judge
from refusal_eval.judges.vote_retries import vote_seed

if TYPE_CHECKING:
    snakemake: Any

LOG = logging.getLogger(__name__)


def main(
    prompts_path: str,
    answers_path: str,
    engine: Mapping[str, Any],
    checked: Mapping[str, Any],
    reading: Mapping[str, Any],
    output: str,
) -> None:
    """Write the requests of each vote on each answer that can be judged.

    Equal answers to a prompt share their requests. An answer that is too long for the judge is cut.
    """
    # Answers are data: control tokens in them must not speak to the judge.
    renderer = Renderer.from_params(engine["tokenizer_folder"], reading, untrusted=True)
    judge = engine_judge(reading, checked)
    sampling = judge.sampling()
    if sampling["max_tokens"] > 1:
        stops = stop_token_ids(engine["tokenizer_folder"], renderer.tokenizer.eos_token_id)
        sampling = {**sampling, "stop_token_ids": stops}
    room, drawn = reading["max_model_len"] - sampling["max_tokens"], sampling["temperature"] > 0
    asks, cut = [], 0
    for answer, messages in read_conversations(read_jsonl(prompts_path), read_jsonl(answers_path)):

        def token_ids_of(text: str, messages: Any = messages) -> list[int]:
            return renderer.token_ids(judge.messages(messages, text))

        found = fitted(token_ids_of, answer["answer"], room)
        token_ids = found.token_ids if found else token_ids_of("")
        seeds = [vote_seed(reading["seed"], token_ids, vote) if drawn else None for vote in range(judge.votes)]
        samples = [(answer["sample"], seed) for seed in seeds]
        asks.append(Ask(answer["prompt_id"], token_ids, samples, answer["turn"], cut=found.cut if found else 0))
        cut += bool(asks[-1].cut)
    retries = retries_of(reading) if judge.retries else None
    settings = RequestSettings(engine["engine_id"], engine["identity"], sampling, reading["determinism"])
    counts = write_requests(output, asks, settings, reading["max_model_len"], retries=retries)
    LOG.info("%d verdict requests", counts["requests"])
    if cut:
        LOG.warning("%d answers are too long for the judge: it sees their head and tail", cut)
    if counts["too_long"]:
        LOG.warning("%d prompts are too long for the judge and will be in state judge_failed", counts["too_long"])


def retries_of(reading: Mapping[str, Any]) -> dict[str, Any]:
    """Return how votes that cannot be read are asked again (see `refusal_eval.judges.vote_retries`)."""
    names = ("reasoning", "trust_remote_code", "max_model_len")
    return {"count": reading["retries"], **{name: reading[name] for name in names}}


if "snakemake" in globals():
    start_log(snakemake)
    main(
        prompts_path=str(snakemake.input.prompts),
        answers_path=str(snakemake.input.answers),
        engine=read_json(snakemake.input.engine),
        checked=read_json(snakemake.input.judge),
        reading=snakemake.params.reading,
        output=str(snakemake.output[0]),
    )
