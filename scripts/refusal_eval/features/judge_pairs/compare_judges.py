"""Compare what a study's judges say of the same answers: agreement, the order of the models, the answers in dispute."""

from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.core.files import read_json
from refusal_eval.features.judge_pairs.agreement_estimates import agreement_estimates
from refusal_eval.features.judge_pairs.pair_agreement import agreement_of, columns, disagreements, panel
from refusal_eval.features.judge_pairs.ranking import rankings
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.flags import derived_flags
from refusal_eval.stats.estimates.near_duplicates import PromptPlace
from refusal_eval.stats.estimates.units import JudgedCell, clusters_apart, read_units


def measure(files: Mapping[str, Sequence[str]], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of the analysis' file (`workflow.analysis.Analysis.measure`).

    Args:
        files: `scores`, a scored cell for each of the study's `cells`, and `duplicates`, whose near-duplicates are left
            out when splits are pooled.
        params: `cells` ([judge, model, split]), `level`, `members` (the judges that each reads), `twins` (judges with
            the same requests as another, with that one) if any, and of `splits` the `name`, `reading` and `source` (see
            `cluster_names.names_apart`).
    """
    left_out = {PromptPlace(**place) for place in read_json(files["duplicates"][0])["left_out"]}
    cells = [(judge, model, split) for judge, model, split in params["cells"]]
    readings, sources = ({split["name"]: split[key] for split in params["splits"]} for key in ("reading", "source"))
    units = {cell: read_units(path) for cell, path in zip(cells, files["scores"], strict=True)}
    flags = {cell: own.flags for cell, own in units.items()}
    found = panel(clusters_apart(units, sources))
    level, members = params["level"], params["members"]
    ranked = []
    for split, reading in readings.items():
        rows = {(judge, model): own.frame for (judge, model, of), own in units.items() if of == split}
        ranked += rankings(rows, split, reading, level, _flags(flags, split))
    disputed = disagreements(found)
    agreement = {
        "judges": list(found.judges),
        "level": level,
        "groups": [
            agreement_of(found.without_duplicates(left_out), None, level, members, _flags(flags, None)),
            *(agreement_of(found.of_split(split), split, level, members, _flags(flags, split)) for split in readings),
        ],
        "rankings": ranked,
        "disputed": {
            **{"found": disputed.found, "listed": len(disputed.rows)},
            **{"columns": columns(found), "rows": disputed.rows},
        },
    }
    if twins := params.get("twins"):
        agreement["twins"] = twins
    return agreement | {"estimates": [estimate.row() for estimate in agreement_estimates(agreement)]}


def methods_words(results: Sequence[Estimate]) -> dict[str, Any]:
    return {"scored_judges": len({estimate.judge for estimate in results if estimate.estimand == "unjudged"})}


def _flags(flags: Mapping[JudgedCell, Sequence[str]], split: str | None) -> dict[str, tuple[str, ...]]:
    """The flags of each judge's cells of a split, of all splits for None."""
    judges = {judge for judge, _, _ in flags}
    return {
        judge: derived_flags(own for (of, _, where), own in flags.items() if of == judge and split in (None, where))
        for judge in judges
    }
