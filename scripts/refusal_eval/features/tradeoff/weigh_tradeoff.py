"""Both kinds of refusal: models, contrast pairs, topics and languages."""

from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.core.files import read_json, read_jsonl
from refusal_eval.features.tradeoff.attack_tradeoff import attack_trade_off, resisted
from refusal_eval.features.tradeoff.study_tradeoff import languages_spoken, study_trade_off
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.languages import languages_of
from refusal_eval.stats.estimates.model_alone import cells_of_model_alone, named_model_alone
from refusal_eval.stats.estimates.near_duplicates import PromptPlace
from refusal_eval.stats.estimates.units import JudgedCell, Units, read_units

# Numbers whose intervals are recovered from those of two rates, as the methods section calls them.
DIFFERENCES = {
    "youden_j": "Youden's J",
    "topic_difference": "topics",
    "language_difference": "unpaired languages",
}


def measure(files: Mapping[str, Sequence[str]], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of the analysis' file (`workflow.analysis.Analysis.measure`)."""
    cells = [(judge, model, split) for judge, model, split in params["cells"]]
    units = {cell: read_units(path, keep_samples=False) for cell, path in zip(cells, files["scores"], strict=True)}
    names = [split["name"] for split in params["splits"]]
    languages = {name: languages_of(read_jsonl(path)) for name, path in zip(names, files["prompts"], strict=True)}
    away = {PromptPlace(**place) for path in files["duplicates"] for place in read_json(path)["left_out"]}
    found = study_trade_off(units, params, languages, away)
    if alone := cells_of_model_alone(units, params.get("may_block", False)):
        found += named_model_alone(study_trade_off(alone, params, languages, away))
    if "attacks" in params:
        found += attack_trade_off(units, _attacked(files["scores"], cells, params["attacks"]), params, away)
    said = {name: params[name] for name in ("weighed_against", "attacks") if name in params}
    spoken = languages_spoken(params, languages)
    return {"estimates": [estimate.row() for estimate in found], "spoken": spoken, **said}


def _attacked(paths: Sequence[str], cells: Sequence[JudgedCell], attacks: Mapping[str, Any]) -> dict[JudgedCell, Units]:
    """Return the cells of attacked prompts under the judge of harm, in which an attack failed or succeeded."""
    return {
        cell: resisted(read_units(path), attacks["succeeds"])
        for cell, path in zip(cells, paths, strict=True)
        if cell[0] == attacks["judge"] and cell[2] in attacks["splits"]
    }


def methods_words(results: Sequence[Estimate]) -> dict[str, Any]:
    known = {estimate.estimand for estimate in results if estimate.value is not None}
    return {
        "differences": {name: words for name, words in DIFFERENCES.items() if name in known},
        "twins": any(e.estimand == "language_difference_p" for e in results),
    }
