"""Render the prompts of one attribution, whole and without each unit, and ask for the probabilities of tokens.

With the score `reply` each is followed by the model's reply to the whole one, whose probability is asked for.
"""

from collections.abc import Mapping
from typing import Any

from refusal_eval.ask.render import Renderer
from refusal_eval.ask.requests import Ask, RequestSettings, write_requests
from refusal_eval.ask.store import when_stored
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import as_planned, read_json, read_jsonl
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.features.attributions.left_out import asked_prompts, request_id
from refusal_eval.features.attributions.own_replies import own_replies, sampling_of_reply
from refusal_eval.features.attributions.tokens_of_refusal import refusal_tokens
from refusal_eval.judges.named_tokens import sampling_of


def main(files: Any, engine: Mapping[str, Any], request: Mapping[str, Any], store_dir: str, output: str) -> None:
    """Write the requests: one greedy token for each, and the log-probabilities of tokens.

    Args:
        files: the `prompts`; `gold` whose refusals give the tokens, and `answers` with the replies, if any do.
        engine: identity file of the model's engine.
        request: the settings of model and study that enter a request, the attribution's `unit`, and `refusal` or, of
            the reply, how many tokens count.

    Raises:
        UserError: if the tokens cannot be had, or a prompt cannot be rendered.
    """
    renderer = Renderer.from_params(engine["tokenizer_folder"], request)
    replies: Mapping[str, list[int]] | None = None
    if "reply" in request:
        replies = own_replies(files.answers[0], store_dir, engine["engine_id"], request["reply"])
        sampling, of = sampling_of_reply(), f"the first {request['reply']} tokens of replies"
    else:
        gold = [row for path in files.gold for row in read_jsonl(path)]
        ids = refusal_tokens(renderer, request["attribution"], request["refusal"], gold)
        sampling, of = sampling_of(list(ids.values())), f"the tokens {ids}"
    asks, alone, unanswered = list[Ask](), 0, 0
    for row in read_jsonl(files.prompts):
        found = asked_prompts(row, request["unit"])
        alone += not found
        if replies is not None and row["id"] not in replies:
            unanswered += bool(found)
            continue
        reply = [] if replies is None else replies[row["id"]]
        for span, messages in found:
            try:
                if span is None:
                    renderer.check_all_rendered(messages)
                prompt = renderer.token_ids(messages)
            except UserError as error:
                source, left = row["source"], "" if span is None else f", without characters {span.begin}-{span.end}"
                raise UserError(f"prompt {row['id']} ({source['file']}, row {source['row']}){left}: {error}") from error
            asks.append(Ask(request_id(row["id"], span), [*prompt, *reply], [(0, None)]))
    settings = RequestSettings(engine["engine_id"], engine["identity"], sampling, request["determinism"])
    counts = write_requests(output, asks, settings, request["max_model_len"])
    LOG.info("%d requests for %s", counts["requests"], of)
    if alone:
        LOG.warning("%d prompts have one %s alone, and get no values", alone, request["unit"])
    if unanswered:
        LOG.warning("%d prompts have no reply of the model, and get no values", unanswered)


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    files, asked = snakemake.input, snakemake.params.request
    with as_planned(files.template, asked["template_sha256"]):
        described, store, out = read_json(files.engine), snakemake.config["store_dir"], snakemake.output[0]
        when_stored(lambda: main(files, described, asked, store, out))
