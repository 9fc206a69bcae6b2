"""Prepare the search for the prompts of one split: what both models read, what is wanted, and the key of each text."""

from collections.abc import Mapping
from typing import Any

from refusal_eval.ask.render import Renderer
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import as_planned, read_json, read_jsonl, write_json
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.features.controlled.search_items import (
    refused_texts,
    same_tokenizer,
    search_items,
    search_settings,
)
from refusal_eval.weights.engine_file import quantization_of


def main(
    seeds_path: str,
    answers_path: str,
    verdicts_path: str,
    engines: Mapping[str, Mapping[str, Any]],
    search: Mapping[str, Any],
    output: str,
) -> None:
    """Write what is searched for.

    Args:
        seeds_path: the prompts that texts are made from.
        answers_path, verdicts_path: the target's answers, and a judge's verdicts on them.
        engines: identity files of the engines of `by` and `target`.
        search: the settings (see `features.controlled.controlled_stage.search_params`).

    Raises:
        UserError: if the models do not share a tokenizer, if the target refuses nothing, and for what cannot be
            rendered.
    """
    source = search["source"]
    for engine in engines.values():
        if quantization_of(engine["folder"]):
            raise UserError(f"{engine['folder']}: the weights are quantized, and no gradient is known through them")
        if engine["identity"].get("long_rope"):
            raise UserError(
                f"engine {engine['engine']}: above the model's original length vLLM computes with the LongRoPE factors "
                "of long texts, and the search does not; lower `max_model_len` to `original_max_position_embeddings`"
            )
    renderers = {
        role: Renderer.from_params(engine["tokenizer_folder"], search["rendering"][role])
        for role, engine in engines.items()
    }
    by, target = renderers["by"], renderers["target"]
    if not same_tokenizer(by, target):
        raise UserError(
            f"models `{source['by']}` and `{source['target']}` have different tokenizers, and the tokens of one are "
            "compared with those of the other; take one family"
        )
    read = source["refusals"]
    refusals = refused_texts(read_jsonl(answers_path), read_jsonl(verdicts_path), target, read["tokens"])
    if not refusals:
        raise UserError(
            f"model `{source['target']}` refuses nothing of split `{read['split']}` as judge `{read['judge']}` reads "
            "it; name a split that it refuses, or another judge"
        )
    lengths = {role: search["rendering"][role]["max_model_len"] for role in renderers}
    longest = {role: lengths[role] or engine.get("max_position_embeddings") for role, engine in engines.items()}
    settings = search_settings(source, by, target, longest)
    decided_by = {role: engine["identity"] for role, engine in engines.items()} | {"search": settings}
    items = search_items(read_jsonl(seeds_path), refusals, renderers, source, search["seed"], decided_by)
    engine_ids = {role: engine["engine_id"] for role, engine in engines.items()}
    write_json(output, {**engine_ids, "settings": settings, "items": items})
    LOG.info("%d texts to search for; %d refusals, %d different", len(items), len(refusals), len(set(refusals)))


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    files, search = snakemake.input, snakemake.params.search
    hashes = [sha256 for rendering in search["rendering"].values() for sha256 in rendering["template_sha256"]]
    with as_planned(files.template, hashes):
        main(
            files.seeds,
            files.answers,
            files.verdicts,
            {role: read_json(files[role]) for role in ("by", "target")},
            search,
            snakemake.output[0],
        )
