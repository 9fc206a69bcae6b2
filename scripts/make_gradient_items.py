"""Prepare the gradients of one attribution: the tokens of each prompt, which of them are whose word's, and its key."""

from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.ask.render import Renderer
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import as_planned, read_json, read_jsonl, write_json
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.features.attributions.gradient_items import baseline_token, gradient_item
from refusal_eval.features.attributions.tokens_of_refusal import refusal_tokens
from refusal_eval.weights.engine_file import quantization_of


def main(
    prompts_path: str, engine: Mapping[str, Any], asked: Mapping[str, Any], gold_paths: Sequence[str], output: str
) -> None:
    """Write what gradients are computed of.

    Args:
        engine: identity file of the model's engine.
        asked: the settings (see `features.attributions.attribution_stage.gradient_params`).
        gold_paths: the gold whose refusals give the tokens, if any do.

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
    gold = [row for path in gold_paths for row in read_jsonl(path)]
    refusal = refusal_tokens(renderer, asked["attribution"], asked["refusal"], gold)
    settings = {
        "method": asked["method"],
        "steps": asked["steps"],
        "baseline": baseline_token(renderer),
        "refusal": sorted(refusal.values()),
    }
    # Of the reply there is one token, as where engines are asked.
    longest = (asked["max_model_len"] or engine.get("max_position_embeddings") or 2**31) - 1
    items = []
    for row in read_jsonl(prompts_path):
        try:
            decided_by = {"engine": engine["identity"], **settings}
            items.append(gradient_item(row, asked["unit"], renderer, decided_by, longest))
        except UserError as error:
            source = row["source"]
            raise UserError(f"prompt {row['id']} ({source['file']}, row {source['row']}): {error}") from error
    write_json(output, {"engine_id": engine["engine_id"], "settings": settings, "items": items})
    without = sum(item["key"] is None for item in items)
    LOG.info("%d prompts for the tokens %s", len(items), refusal)
    if without:
        LOG.warning("%d prompts have one %s alone, or are too long, and get no values", without, asked["unit"])


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    files, asked = snakemake.input, snakemake.params.asked
    with as_planned(files.template, asked["template_sha256"]):
        main(files.prompts, read_json(files.engine), asked, list(files.gold), snakemake.output[0])
