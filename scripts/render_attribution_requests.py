"""Render the prompts of one attribution, whole and without each unit, and ask for the probabilities of tokens."""

from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.ask.render import Renderer
from refusal_eval.ask.requests import Ask, RequestSettings, write_requests
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import as_planned, read_json, read_jsonl
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.features.attributions.left_out import asked_prompts, request_id
from refusal_eval.features.attributions.tokens_of_refusal import refusal_tokens
from refusal_eval.judges.named_tokens import sampling_of


def main(
    prompts_path: str, engine: Mapping[str, Any], request: Mapping[str, Any], gold_paths: Sequence[str], output: str
) -> None:
    """Write the requests: one greedy token for each, and the log-probabilities of the tokens of a refusal.

    Args:
        engine: identity file of the model's engine.
        request: the settings of model and study that enter a request, and the attribution's `unit` and `refusal`.
        gold_paths: the gold whose refusals give the tokens, if any do.

    Raises:
        UserError: if the tokens cannot be had, or a prompt cannot be rendered.
    """
    renderer = Renderer.from_params(engine["tokenizer_folder"], request)
    gold = [row for path in gold_paths for row in read_jsonl(path)]
    ids = refusal_tokens(renderer, request["attribution"], request["refusal"], gold)
    asks, alone = [], 0
    for row in read_jsonl(prompts_path):
        found = asked_prompts(row, request["unit"])
        alone += not found
        for span, messages in found:
            try:
                if span is None:
                    renderer.check_all_rendered(messages)
                prompt = renderer.token_ids(messages)
            except UserError as error:
                source, left = row["source"], "" if span is None else f", without characters {span.begin}-{span.end}"
                raise UserError(f"prompt {row['id']} ({source['file']}, row {source['row']}){left}: {error}") from error
            asks.append(Ask(request_id(row["id"], span), prompt, [(0, None)]))
    sampling = sampling_of(list(ids.values()))
    settings = RequestSettings(engine["engine_id"], engine["identity"], sampling, request["determinism"])
    counts = write_requests(output, asks, settings, request["max_model_len"])
    LOG.info("%d requests for the tokens %s", counts["requests"], ids)
    if alone:
        LOG.warning("%d prompts have one %s alone, and get no values", alone, request["unit"])


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    files, asked = snakemake.input, snakemake.params.request
    with as_planned(files.template, asked["template_sha256"]):
        main(files.prompts, read_json(files.engine), asked, list(files.gold), snakemake.output[0])
