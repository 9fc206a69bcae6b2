"""Find the prompts that stand in several splits, so that pooled numbers count them once."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from refusal_eval.estimates.near_duplicates import RULE, THRESHOLD, duplicate_groups, similarity, text_of
from refusal_eval.files import read_jsonl, write_json, written_whole
from refusal_eval.logs import start_log
from refusal_eval.markup import csv_text

if TYPE_CHECKING:
    snakemake: Any

LOG = logging.getLogger(__name__)
COLUMNS = ("group", "counts", "split", "prompt_id", "expectation", "similarity", "category", "text")


def main(paths: Mapping[str, str], expectations: Mapping[str, str], json_path: str, csv_path: str) -> None:
    """Write the groups of near-duplicates: for programs as JSON, for readers as CSV.

    Args:
        paths: the prompts of each split.
        expectations: the expectation of each split.
        json_path: {"rule", "threshold", "groups": [[{"split", "prompt_id"}, ...], ...], "left_out": [...]}; the first
            prompt of each group counts.
        csv_path: a row per prompt of a group, with its similarity to the one that counts.
    """
    prompts = {split: list(read_jsonl(path)) for split, path in paths.items()}
    groups = duplicate_groups(prompts, expectations)
    named = [[{"split": place.split, "prompt_id": place.prompt_id} for place in group] for group in groups]
    out = sorted((place for group in named for place in group[1:]), key=lambda p: (p["split"], p["prompt_id"]))
    write_json(json_path, {"rule": RULE, "threshold": THRESHOLD, "groups": named, "left_out": out})
    by_place = {(split, row["id"]): row for split, rows in prompts.items() for row in rows}
    rows = []
    for number, group in enumerate(groups, 1):
        first = text_of(by_place[group[0]])
        for place in group:
            row = by_place[place]
            rows.append(
                (
                    *(number, place == group[0], place.split, place.prompt_id, expectations[place.split]),
                    *(round(similarity(first, text_of(row)), 3), row["category"], row["messages"][-1]["content"]),
                )
            )
    with written_whole(csv_path) as handle:
        handle.write(csv_text(pd.DataFrame(rows, columns=list(COLUMNS), dtype=object)))
    LOG.info("%d groups of near-duplicates, %d prompts left out of pooled numbers", len(groups), len(out))


if "snakemake" in globals():
    start_log(snakemake)
    main(
        paths=dict(zip(snakemake.params.duplicates["expectations"], map(str, snakemake.input.prompts), strict=True)),
        expectations=snakemake.params.duplicates["expectations"],
        json_path=str(snakemake.output.json),
        csv_path=str(snakemake.output.csv),
    )
