"""Compile a model's intervention into the file that its engine reads, after checking that it was made for the model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from refusal_eval.activations.intervention import FittedDirection, refuse_other_model, write_intervention
from refusal_eval.core.files import read_json, write_json
from refusal_eval.core.logs import start_log


def main(
    direction_path: str,
    counts: Mapping[str, int],
    engine: Mapping[str, Any],
    model: str,
    asked: Mapping[str, Any],
    output: str,
    card_path: str,
) -> dict[str, Any]:
    """Write the compiled intervention and its card; return the card.

    Args:
        direction_path: the direction's file.
        counts: the number of prompts on each of its sides, held-out ones included.
        engine: identity file of the model's engine.
        model: the model's name.
        asked: the `intervention` of its entry.
        output: the compiled file.
        card_path: its card.
    """
    direction = FittedDirection.of_file(direction_path)
    config = Path(engine["tokenizer_folder"], "config.json")
    refuse_other_model(direction, read_json(config) if config.is_file() else {}, f"the engine of `{model}`")
    card = write_intervention(output, model, direction, asked)
    card["direction"] |= {"n": dict(counts)}
    write_json(card_path, card)
    return card


if snakemake := globals().get("snakemake"):
    log = start_log(snakemake)
    files, out = snakemake.input, snakemake.output
    card = main(
        files.direction,
        read_json(files.direction_card)["n"],
        read_json(files.engine),
        snakemake.wildcards.model,
        snakemake.params.asked,
        out.file,
        out.card,
    )
    log.info("%s on layers %s: intervention %s", card["mode"], card["layers"], card["sha256"])
