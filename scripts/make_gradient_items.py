"""Prepare the gradients of one attribution: the tokens of each prompt, which of them are whose word's, and its key."""

from collections.abc import Mapping
from typing import Any

from refusal_eval.ask.render import Renderer
from refusal_eval.ask.store import when_stored
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import as_planned, read_json, read_jsonl, write_json
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.features.attributions.direction_vector import layer_vector
from refusal_eval.features.attributions.gradient_items import baseline_token, gradient_item
from refusal_eval.features.attributions.own_replies import own_replies
from refusal_eval.features.attributions.tokens_of_refusal import refusal_tokens
from refusal_eval.weights.engine_file import quantization_of


def main(files: Any, engine: Mapping[str, Any], asked: Mapping[str, Any], store_dir: str, output: str) -> None:
    """Write what gradients are computed of.

    Args:
        files: the `prompts`; `gold` whose refusals give the tokens, `answers` with the replies, and the `direction`, if
            the score is of them.
        engine: identity file of the model's engine.
        asked: the settings (see `features.attributions.attribution_stage.gradient_params`).

    Raises:
        UserError: for weights through which no gradient is known, if the tokens cannot be had, or where a prompt cannot
            be rendered or the tokens of its words are not known.
    """
    if quantization_of(engine["folder"]):
        raise UserError(f"{engine['folder']}: the weights are quantized, and no gradient is known through them")
    if engine["identity"].get("long_rope"):
        raise UserError(
            f"engine {engine['engine']}: above the model's original length vLLM computes with the LongRoPE factors of "
            "long texts, and gradients do not; lower `max_model_len` to `original_max_position_embeddings`"
        )
    renderer = Renderer.from_params(engine["tokenizer_folder"], asked)
    settings: dict[str, Any] = {
        "method": asked["method"],
        "steps": asked["steps"],
        **({"baseline": baseline_token(renderer)} if asked["steps"] else {}),
    }
    told: dict[str, Any] = {}  # what is not in keys as it is
    replies: Mapping[str, list[int]] | None = None
    if "reply" in asked:
        replies = own_replies(files.answers[0], store_dir, engine["engine_id"], asked["reply"])
        of = f"the first {asked['reply']} tokens of replies"
    elif "direction" in asked:
        vector = layer_vector(files.direction[0], asked["layer"])
        settings["direction"], told["direction"] = vector.identity, vector.asked
        of = f"the projection on {asked['direction']} behind layer {asked['layer']}"
    else:
        gold = [row for path in files.gold for row in read_jsonl(path)]
        refusal = refusal_tokens(renderer, asked["attribution"], asked["refusal"], gold)
        settings["refusal"], of = sorted(refusal.values()), f"the tokens {refusal}"
    # Of what comes behind there is one token, as where engines are asked.
    longest = (asked["max_model_len"] or engine.get("max_position_embeddings") or 2**31) - 1
    items = []
    for row in read_jsonl(files.prompts):
        reply = () if replies is None else replies.get(row["id"])
        try:
            decided_by = {"engine": engine["identity"], **settings}
            items.append(gradient_item(row, asked["unit"], renderer, decided_by, longest, reply))
        except UserError as error:
            source = row["source"]
            raise UserError(f"prompt {row['id']} ({source['file']}, row {source['row']}): {error}") from error
    write_json(output, {"engine_id": engine["engine_id"], "settings": {**settings, **told}, "items": items})
    without = sum(item["key"] is None for item in items)
    LOG.info("%d prompts for %s", len(items), of)
    if without:
        why = f"have one {asked['unit']} alone, are too long" + (", or have no reply" if replies is not None else "")
        LOG.warning("%d prompts %s, and get no values", without, why)


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    files, asked = snakemake.input, snakemake.params.asked
    with as_planned(files.template, asked["template_sha256"]):
        described, store, out = read_json(files.engine), snakemake.config["store_dir"], snakemake.output[0]
        when_stored(lambda: main(files, described, asked, store, out))
