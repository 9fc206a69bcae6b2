"""Compile a model's intervention into the file that its engine reads, after checking that it was made for the model."""

from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.core.files import read_json, write_json
from refusal_eval.core.logs import start_log
from refusal_eval.features.steering.intervention import FittedDirection, refuse_other_model, write_intervention


def main(
    direction_paths: Sequence[str],
    counts: Sequence[Mapping[str, int]],
    engine: Mapping[str, Any],
    model: str,
    asked: Mapping[str, Any],
    output: str,
    card_path: str,
) -> dict[str, Any]:
    """Write the compiled intervention and its card; return the card.

    Args:
        counts: of each direction the number of prompts on each of its sides, held-out ones included.
        engine: identity file of the model's engine.
        asked: the `intervention` of the model's entry.
    """
    directions = [FittedDirection.of_file(path) for path in direction_paths]
    for direction in directions:
        refuse_other_model(direction, engine["tokenizer_folder"], f"the engine of `{model}`")
    card = write_intervention(output, model, directions, asked)
    for card_of_one, n in zip(card["directions"], counts, strict=True):
        card_of_one["n"] = dict(n)
    write_json(card_path, card)
    return card


if snakemake := globals().get("snakemake"):
    log = start_log(snakemake)
    files, out = snakemake.input, snakemake.output
    card = main(
        list(files.direction),
        [read_json(path)["n"] for path in files.direction_card],
        read_json(files.engine),
        snakemake.wildcards.model,
        snakemake.params.asked,
        out.file,
        out.card,
    )
    log.info("%s on layers %s: intervention %s", card["mode"], card["layers"], card["sha256"])
