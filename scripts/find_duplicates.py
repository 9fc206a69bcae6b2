"""Find the prompts that stand in several splits, so that pooled numbers count them once."""

from collections.abc import Iterable, Mapping

import pandas as pd

from refusal_eval.core.files import read_jsonl, write_json, write_text
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.report.paper.markup import csv_text
from refusal_eval.stats.estimates.near_duplicates import (
    RULE,
    THRESHOLD,
    PromptPlace,
    copies,
    duplicate_groups,
    near_pairs,
)

COLUMNS = ("group", "counts", "split", "prompt_id", "expectation", "similarity", "category", "text")


def main(paths: Mapping[str, str], splits: Mapping[str, Mapping[str, str]], json_path: str, csv_path: str) -> None:
    """Write the groups of near-duplicates: for programs as JSON, for readers as CSV.

    Args:
        paths: the prompts of each split.
        splits: `expectations` and `sources`, see `near_duplicates.near_pairs`.
        json_path: {"rule", "threshold", "groups": [[{"split", "prompt_id"}, ...], ...], "left_out": [...], "pairs":
            [...]}; the first prompt of each group counts. `pairs` are all near-duplicates two by two: what a pool of
            some splits leaves out follows from them.
        csv_path: a row per prompt of a group, with its similarity to the one that counts.
    """
    prompts = {split: list(read_jsonl(path)) for split, path in paths.items()}
    expectations = splits["expectations"]
    pairs = near_pairs(prompts, expectations, splits["sources"])
    groups = duplicate_groups(pairs)
    named, near = _named(groups), _named(pairs)
    out = [place._asdict() for place in copies(pairs)]
    write_json(json_path, {"rule": RULE, "threshold": THRESHOLD, "groups": named, "left_out": out, "pairs": near})
    by_place = {(split, row["id"]): row for split, rows in prompts.items() for row in rows}
    rows = []
    for number, group in enumerate(groups, 1):
        for place in group:
            row = by_place[place]
            alike = min(pairs.get((group[0], place), 1.0), 1.0)  # infinite where texts are equal
            rows.append(
                (
                    *(number, place == group[0], place.split, place.prompt_id, expectations[place.split]),
                    *(round(alike, 3), row["category"], row["messages"][-1]["content"]),
                )
            )
    write_text(csv_path, csv_text(pd.DataFrame(rows, columns=list(COLUMNS), dtype=object)))
    LOG.info("%d groups of near-duplicates, %d prompts left out of pooled numbers", len(groups), len(out))


def _named(groups: Iterable[Iterable[PromptPlace]]) -> list[list[dict[str, str]]]:
    return [[place._asdict() for place in group] for group in groups]


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    asked = snakemake.params.duplicates
    paths = dict(zip(asked["expectations"], snakemake.input.prompts, strict=True))
    main(paths, asked, snakemake.output.json, snakemake.output.csv)
