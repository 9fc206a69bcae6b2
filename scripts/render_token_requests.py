"""Render the prompts of one split as a model with refusal tokens takes them, and ask for the tokens' probabilities."""

from collections.abc import Mapping
from typing import Any

from refusal_eval.ask.render import Renderer
from refusal_eval.ask.requests import Ask, RequestSettings, write_requests
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import as_planned, read_json, read_jsonl
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.judges.named_tokens import sampling_of, tokens_of
from refusal_eval.study.dialogues import conversation

HELLO = [{"role": "user", "content": "Hello"}]  # a prompt behind which a text is looked at


def main(prompts_path: str, engine: Mapping[str, Any], request: Mapping[str, Any], output: str) -> None:
    """Write one request for each prompt, with one greedy token and the log-probabilities of the named ones.

    Args:
        engine: identity file of the model's engine.
        request: the settings of model and study that enter a request, and its `tokens`.

    Raises:
        UserError: if a text is not exactly one token behind a prompt, or a prompt cannot be rendered.
    """
    renderer = Renderer.from_params(engine["tokenizer_folder"], request)
    try:
        ids = tokens_of(renderer, HELLO, {text: text for text in request["tokens"].values()})
    except UserError as error:
        raise UserError(f"`refusal_tokens`: {error}") from error
    asks = []
    for row in read_jsonl(prompts_path):
        try:
            prompt = renderer.token_ids(conversation(row, 0, {}))
        except UserError as error:
            source = row["source"]
            raise UserError(f"prompt {row['id']} ({source['file']}, row {source['row']}): {error}") from error
        asks.append(Ask(row["id"], prompt, [(0, None)]))
    sampling = sampling_of(list(ids.values()))
    settings = RequestSettings(engine["engine_id"], engine["identity"], sampling, request["determinism"])
    counts = write_requests(output, asks, settings, request["max_model_len"])
    LOG.info("%d requests for the tokens %s", counts["requests"], ids)


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    files, asked = snakemake.input, snakemake.params.request
    with as_planned(files.template, asked["template_sha256"]):
        main(files.prompts, read_json(files.engine), asked, snakemake.output[0])
