"""Weigh over-refusal against safety: models, contrast pairs, topics and languages."""

from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.core.files import read_json, read_jsonl, write_json
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.stats.estimates.near_duplicates import Place
from refusal_eval.stats.estimates.units import read_units
from refusal_eval.stats.tradeoff.contrasts import languages_of
from refusal_eval.stats.tradeoff.study_tradeoff import study_trade_off


def main(paths: Mapping[str, Sequence[str]], study: Mapping[str, Any], output: str) -> None:
    """Write the trade-off of a study.

    Args:
        paths: `scores` (a file for each of the study's `cells`), `prompts` (one for each split) and `duplicates`.
        study: see `study_tradeoff.study_trade_off`; `cells` are [judge, model, split].
    """
    cells = [(judge, model, split) for judge, model, split in study["cells"]]
    units = {cell: read_units(path, keep_samples=False) for cell, path in zip(cells, paths["scores"], strict=True)}
    names = [split["name"] for split in study["splits"]]
    languages = {name: languages_of(read_jsonl(path)) for name, path in zip(names, paths["prompts"], strict=True)}
    away = {Place(**place) for path in paths["duplicates"] for place in read_json(path)["left_out"]}
    result = study_trade_off(units, study, languages, away)
    write_json(output, result)
    LOG.info("%d models on the trade-off", len(result["models"]))


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    paths = {name: snakemake.input[name] for name in ("scores", "prompts")}
    main(paths | {"duplicates": [snakemake.input.duplicates]}, snakemake.params.study, snakemake.output[0])
