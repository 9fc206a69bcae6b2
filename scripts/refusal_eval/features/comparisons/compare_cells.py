"""Differences of models, and of judges, on the same prompts, with tests corrected over each family."""

from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.core.files import read_json
from refusal_eval.stats.comparisons.study_comparisons import compare_families, counted_splits
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.model_alone import cells_of_model_alone, named_model_alone
from refusal_eval.stats.estimates.units import read_units, splits_of_turns
from refusal_eval.study.comparison_families import MODELS, family_of


def measure(files: Mapping[str, Sequence[str]], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of the analysis' file (`workflow.analysis.Analysis.measure`)."""
    cells = [(judge, model, split) for judge, model, split in params["cells"]]
    units = {cell: read_units(path, keep_samples=False) for cell, path in zip(cells, files["scores"], strict=True)}
    duplicates = [pair for path in files["duplicates"] for pair in read_json(path)["pairs"]]
    families = [family_of(family) for family in params["families"]]
    found = compare_families(families, units, params, duplicates)
    if alone := cells_of_model_alone(units, params.get("may_block", False)):
        of_models = [family for family in families if family.kind == MODELS]
        found += named_model_alone(compare_families(of_models, alone, params, duplicates))
    return {
        "estimates": [estimate.row() for estimate in found],
        "counted": counted_splits(families, units, duplicates),
        "turns": splits_of_turns(units),
    }


def methods_words(results: Sequence[Estimate]) -> dict[str, Any]:
    """Return what the methods section says of its numbers (`workflow.analysis.Analysis.methods_words`)."""
    tests = [e for e in results if e.estimand == "rate_difference_p" and e.value is not None]
    judges = {str(test.parameter).startswith("minus judge ") for test in tests}
    return {"compared": [noun for noun, of_judges in (("models", False), ("judges", True)) if of_judges in judges]}
