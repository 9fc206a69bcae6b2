"""Over-refusal against safety: models, contrast pairs, topics and languages."""

from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.core.files import read_json, read_jsonl
from refusal_eval.features.tradeoff.contrasts import GAP_METHOD
from refusal_eval.features.tradeoff.study_tradeoff import study_trade_off
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.languages import languages_of
from refusal_eval.stats.estimates.near_duplicates import Place
from refusal_eval.stats.estimates.units import read_units


def measure(files: Mapping[str, Sequence[str]], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of the analysis' file (`workflow.analysis.Analysis.measure`)."""
    cells = [(judge, model, split) for judge, model, split in params["cells"]]
    units = {cell: read_units(path, keep_samples=False) for cell, path in zip(cells, files["scores"], strict=True)}
    names = [split["name"] for split in params["splits"]]
    languages = {name: languages_of(read_jsonl(path)) for name, path in zip(names, files["prompts"], strict=True)}
    away = {Place(**place) for path in files["duplicates"] for place in read_json(path)["left_out"]}
    return study_trade_off(units, params, languages, away)


def methods_words(results: Sequence[Estimate]) -> dict[str, Any]:
    """Return what the methods section says of its numbers (`workflow.analysis.Analysis.methods_words`)."""
    gaps = [e for e in results if e.estimand == "language_difference" and e.value is not None]
    return {"twins": any(gap.method != GAP_METHOD for gap in gaps)}
