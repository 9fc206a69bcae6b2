"""Compare what a study's judges say of the same answers: agreement, the order of the models, the answers in dispute."""

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from refusal_eval.core.files import read_json, read_jsonl, write_json, written_whole
from refusal_eval.core.logs import start_log
from refusal_eval.report.paper.markup import csv_text
from refusal_eval.stats.estimates.scores import derived_flags, score_flags
from refusal_eval.stats.estimates.units import names_apart, read_scores
from refusal_eval.stats.judge_pairs.pair_agreement import agreement_of
from refusal_eval.stats.judge_pairs.ranking import rankings
from refusal_eval.stats.judge_pairs.verdict_panel import columns, disagreements, panel

if TYPE_CHECKING:
    snakemake: Any

LOG = logging.getLogger(__name__)

Cell = tuple[str, str, str]


def main(paths: Mapping[str, Sequence[str]], study: Mapping[str, Any], json_path: str, disputed_path: str) -> None:
    """Write how far the judges agree, and the answers that they label differently.

    Args:
        paths: `prompts` (a file for each of the study's `splits`), `verdicts`, `scores` (CSVs) and `summaries` (one for
            each of its `cells`).
        study: `cells` ([judge, model, split]), `level`, `members` of each panel among the judges, and of `splits` the
            `name`, `reading` and `source` (see `units.names_apart`).
        json_path: the agreement.
        disputed_path: the answers in dispute, as CSV.
    """
    cells = [(judge, model, split) for judge, model, split in study["cells"]]
    readings, sources = ({split["name"]: split[key] for split in study["splits"]} for key in ("reading", "source"))
    own = {
        split: {row["id"]: row["cluster"] for row in read_jsonl(path)}
        for split, path in zip(readings, paths["prompts"], strict=True)
    }
    names = names_apart({split: prompts.values() for split, prompts in own.items()}, sources)
    clusters = {(s, name): names[s][cluster] for s, prompts in own.items() for name, cluster in prompts.items()}
    verdicts = {cell: read_jsonl(path) for cell, path in zip(cells, paths["verdicts"], strict=True)}
    scores = {cell: read_scores(path) for cell, path in zip(cells, paths["scores"], strict=True)}
    scored: dict[str, set[tuple[str, int]]] = {split: set() for split in own}
    for (_, _, split), units in scores.items():
        scored[split] |= set(units.index)
    flags = {cell: score_flags(read_json(path)) for cell, path in zip(cells, paths["summaries"], strict=True)}
    found = panel(verdicts, clusters, scored)
    level, members = study["level"], study["members"]
    ranked = []
    for split, reading in readings.items():
        rows = {(judge, model): own for (judge, model, of), own in scores.items() if of == split}
        ranked += rankings(rows, split, reading, level, _flags(flags, split))
    disputed = disagreements(found)
    agreement = {
        "judges": list(found.judges),
        "level": level,
        "groups": [
            agreement_of(found, None, level, members, _flags(flags, None)),
            *(agreement_of(found.of_split(split), split, level, members, _flags(flags, split)) for split in readings),
        ],
        "rankings": ranked,
        "disputed": {"found": disputed.found, "listed": len(disputed.rows)},
    }
    write_json(json_path, agreement)
    with written_whole(disputed_path) as handle:
        handle.write(csv_text(pd.DataFrame(disputed.rows, columns=columns(found), dtype=object)))
    LOG.info("%d judges on %d answers, %d in dispute", len(found.judges), len(found.units), disputed.found)


def _flags(flags: Mapping[Cell, Sequence[str]], split: str | None) -> dict[str, tuple[str, ...]]:
    """The flags of each judge's cells of a split, of all splits for None."""
    judges = {judge for judge, _, _ in flags}
    return {
        judge: derived_flags(own for (of, _, where), own in flags.items() if of == judge and split in (None, where))
        for judge in judges
    }


if "snakemake" in globals():
    start_log(snakemake)
    nouns = ("prompts", "verdicts", "scores", "summaries")
    main(
        paths={noun: [str(path) for path in snakemake.input[noun]] for noun in nouns},
        study=snakemake.params.study,
        json_path=str(snakemake.output.json),
        disputed_path=str(snakemake.output[0]),
    )
