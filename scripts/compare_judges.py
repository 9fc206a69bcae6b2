"""Compare what a study's judges say of the same answers: agreement, the order of the models, the answers in dispute."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from refusal_eval.core.files import read_json, read_jsonl, write_json, written_whole
from refusal_eval.core.logs import start_log
from refusal_eval.report.paper.display import Labels
from refusal_eval.report.paper.judges_agree_tables import agreement_frame, agreement_table
from refusal_eval.report.paper.latex_table import latex
from refusal_eval.report.paper.markup import csv_text, markdown
from refusal_eval.report.paper.protocol_labels import labelled
from refusal_eval.report.paper.repeated_headers import told_once
from refusal_eval.stats.estimates.scores import HEADLINE_READING, derived_flags, score_flags
from refusal_eval.stats.estimates.units import names_apart, read_scores
from refusal_eval.stats.judge_pairs.pair_agreement import agreement_of
from refusal_eval.stats.judge_pairs.ranking import rankings
from refusal_eval.stats.judge_pairs.verdict_panel import columns, disagreements, panel

if TYPE_CHECKING:
    snakemake: Any

LOG = logging.getLogger(__name__)

Cell = tuple[str, str, str]


def main(
    cells: Sequence[Cell],
    prompt_paths: Mapping[str, str],
    verdict_paths: Sequence[str],
    score_paths: Sequence[str],
    summary_paths: Sequence[str],
    study: Mapping[str, Any],
    results: str,
) -> None:
    """Write judge_agreement.json, tables/judges_agree.{csv,md,tex} and tables/judges_disagree.csv.

    Args:
        cells: (judge, model, split) of each verdict file and score CSV, in their order.
        prompt_paths: the prompts of each split.
        verdict_paths: verdict files.
        score_paths: score CSVs.
        summary_paths: the summaries of the same cells.
        study: names, labels, `headlines` (the reading of each split, None for that of its expectation),
            `expectations`, `sources` (see `units.names_apart`), `level` and `members` of each panel among the
            judges.
        results: the study's folder.
    """
    own = {s: {row["id"]: row["cluster"] for row in read_jsonl(path)} for s, path in prompt_paths.items()}
    names = names_apart({split: prompts.values() for split, prompts in own.items()}, study["sources"])
    clusters = {(s, name): names[s][cluster] for s, prompts in own.items() for name, cluster in prompts.items()}
    verdicts = {cell: read_jsonl(path) for cell, path in zip(cells, verdict_paths, strict=True)}
    scores = {cell: read_scores(path) for cell, path in zip(cells, score_paths, strict=True)}
    scored: dict[str, set[tuple[str, int]]] = {split: set() for split in own}
    for (_, _, split), units in scores.items():
        scored[split] |= set(units.index)
    flags = {cell: score_flags(read_json(path)) for cell, path in zip(cells, summary_paths, strict=True)}
    found = panel(verdicts, clusters, scored)
    splits, level, members = study["splits"], study["level"], study["members"]
    ranked = []
    for split in splits:
        rows = {(judge, model): own for (judge, model, of), own in scores.items() if of == split}
        reading = study["headlines"][split] or HEADLINE_READING[study["expectations"][split]]
        ranked += rankings(rows, split, reading, level, _flags(flags, split))
    disputed = disagreements(found)
    agreement = {
        "judges": list(found.judges),
        "level": level,
        "groups": [
            agreement_of(found, None, level, members, _flags(flags, None)),
            *(agreement_of(found.of_split(split), split, level, members, _flags(flags, split)) for split in splits),
        ],
        "rankings": ranked,
        "disputed": {"found": disputed.found, "listed": len(disputed.rows)},
    }
    write_json(f"{results}/judge_agreement.json", agreement)
    labels = Labels(**study["labels"])
    frame, table = labelled(
        agreement_frame(agreement),
        told_once(agreement_table(agreement, study["judges"], labels)),
        study.get("protocol", "default"),
    )
    for ending, text in (("csv", csv_text(frame)), ("md", markdown(table)), ("tex", latex(table))):
        with written_whole(f"{results}/tables/judges_agree.{ending}") as handle:
            handle.write(text)
    with written_whole(f"{results}/tables/judges_disagree.csv") as handle:
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
    params = snakemake.params.comparison
    main(
        cells=[tuple(cell) for cell in params["cells"]],
        prompt_paths=dict(zip(params["study"]["splits"], map(str, snakemake.input.prompts), strict=True)),
        verdict_paths=[str(path) for path in snakemake.input.verdicts],
        score_paths=[str(path) for path in snakemake.input.scores],
        summary_paths=[str(path) for path in snakemake.input.summaries],
        study=params["study"],
        results=str(Path(snakemake.output.json).parent),
    )
