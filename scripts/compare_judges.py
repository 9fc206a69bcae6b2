"""Compare what a study's judges say of the same answers: agreement, the order of the models, the answers in dispute."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pandas as pd

from refusal_eval.core.files import read_json, write_json, write_text
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.report.paper.markup import csv_text
from refusal_eval.stats.estimates.flags import derived_flags
from refusal_eval.stats.estimates.near_duplicates import Place
from refusal_eval.stats.estimates.units import clusters_apart, read_units
from refusal_eval.stats.judge_pairs.pair_agreement import agreement_of, columns, disagreements, panel
from refusal_eval.stats.judge_pairs.ranking import rankings

Cell = tuple[str, str, str]


def main(
    paths: Sequence[str], left_out: Collection[Place], study: Mapping[str, Any], json_path: str, disputed_path: str
) -> None:
    """Write how far the judges agree, and the answers that they label differently.

    Args:
        paths: a scored cell for each of the study's `cells`.
        left_out: near-duplicates of prompts that count, not to be counted in all splits together.
        study: `cells` ([judge, model, split]), `level`, `members` of each panel among the judges, `twins` (judges that
            ask the same as another, with that one) if any, and of `splits` the `name`, `reading` and `source` (see
            `cluster_names.names_apart`).
        disputed_path: the answers in dispute, as CSV.
    """
    cells = [(judge, model, split) for judge, model, split in study["cells"]]
    readings, sources = ({split["name"]: split[key] for split in study["splits"]} for key in ("reading", "source"))
    units = {cell: read_units(path) for cell, path in zip(cells, paths, strict=True)}
    flags = {cell: own.flags for cell, own in units.items()}
    found = panel(clusters_apart(units, sources))
    level, members = study["level"], study["members"]
    ranked = []
    for split, reading in readings.items():
        rows = {(judge, model): own.frame for (judge, model, of), own in units.items() if of == split}
        ranked += rankings(rows, split, reading, level, _flags(flags, split))
    disputed = disagreements(found)
    agreement = {
        "judges": list(found.judges),
        "level": level,
        "groups": [
            agreement_of(found.counted_once(left_out), None, level, members, _flags(flags, None)),
            *(agreement_of(found.of_split(split), split, level, members, _flags(flags, split)) for split in readings),
        ],
        "rankings": ranked,
        "disputed": {"found": disputed.found, "listed": len(disputed.rows)},
    }
    if twins := study.get("twins"):
        agreement["twins"] = twins
    write_json(json_path, agreement)
    write_text(disputed_path, csv_text(pd.DataFrame(disputed.rows, columns=columns(found), dtype=object)))
    LOG.info("%d judges on %d answers, %d in dispute", len(found.judges), len(found.units), disputed.found)


def _flags(flags: Mapping[Cell, Sequence[str]], split: str | None) -> dict[str, tuple[str, ...]]:
    """The flags of each judge's cells of a split, of all splits for None."""
    judges = {judge for judge, _, _ in flags}
    return {
        judge: derived_flags(own for (of, _, where), own in flags.items() if of == judge and split in (None, where))
        for judge in judges
    }


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    away = {Place(**place) for place in read_json(snakemake.input.duplicates)["left_out"]}
    main(snakemake.input.scores, away, snakemake.params.study, snakemake.output.json, snakemake.output[0])
