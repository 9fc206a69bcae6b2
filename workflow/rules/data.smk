"""Data: from rows on the hub, in wheels and in files to prompts and gold.

Reads the sources of `split_entries` and `gold_entries`. Writes <cache>/rows/, prompts/, gold/, and answers/gold/ (gold
as answers of a model called "gold", which the judging rules treat like any other). Only `fetch_rows` needs a network.
"""

from refusal_eval.data.sources import (
    FETCHED_KINDS,
    fetched_path,
    local_path,
    shown_path,
    source_id,
    source_name,
)

ENTRIES_WITH_DATA = [
    *config["split_entries"].values(),
    *config["gold_entries"].values(),
]
FETCHED = {
    source_id(entry["source"]): entry["source"]
    for entry in ENTRIES_WITH_DATA
    if entry["source"]["kind"] in FETCHED_KINDS
}


def fetched_source(wildcards):
    """The source behind a folder of the cache."""
    return FETCHED[wildcards.source]


def rows_file(entry):
    """The file with the rows of a split or gold entry."""
    if entry["source"]["kind"] in FETCHED_KINDS:
        return fetched_path(entry["source"], CACHE)
    return local_path(entry["source"], shown_path(ROOT / "config" / "prompts"))


def split_rows(wildcards):
    """The file with the rows of a split."""
    return rows_file(config["split_entries"][wildcards.split])


def gold_rows(wildcards):
    """The file with the rows of a gold entry."""
    return rows_file(config["gold_entries"][wildcards.gold])


def reading(entry):
    """How rows are read: what is common to splits and gold."""
    source = entry["source"]
    # The source itself counts: the file of another source may be older than the output, which Snakemake would not see.
    return {
        "source": source,
        "name": source_name(source),
        "skip_lines": source.get("skip_lines", 0),
        "columns": entry["columns"],
        "expected_rows": entry["expected_rows"],
    }


def split_reading(wildcards):
    """What of a split decides its prompts; its label and expectation do not."""
    entry = config["split_entries"][wildcards.split]
    return {**reading(entry), "samples": [entry["sample"], config["prompts_per_split"]]}


def gold_reading(wildcards):
    """What of a gold entry decides its rows."""
    entry = config["gold_entries"][wildcards.gold]
    return {**reading(entry), "labels": entry["labels"]}


rule fetch_rows:
    """Fetch the rows of one source at its locked revision; faults of the network are tried again by the script."""
    output:
        f"{CACHE}/rows/{{source}}/{{file}}",
    log:
        f"{LOGS}/fetch_rows/{{source}}/{{file}}.log",
    wildcard_constraints:
        source="[0-9a-f]{16}",
        file="[^/]+",
    localrule: True
    params:
        source=fetched_source,
    message:
        "Fetching the rows in {output}"
    script:
        "../../scripts/fetch_rows.py"


rule prompts:
    """Give the prompts of one split their ids, drop duplicates, take the sample."""
    input:
        rows=split_rows,
    output:
        prompts=f"{RESULTS}/prompts/{{split}}.jsonl",
    log:
        f"{LOGS}/prompts/{{split}}.log",
    localrule: True
    params:
        split=split_reading,
        code=code_version("scripts/make_prompts.py"),
    message:
        "Making the prompts of {wildcards.split}"
    script:
        "../../scripts/make_prompts.py"


rule gold:
    """Map the labels of one gold source; write gold, and gold as answers."""
    input:
        rows=gold_rows,
    output:
        gold=f"{RESULTS}/gold/{{gold}}.jsonl",
        answers=f"{RESULTS}/answers/gold/{{gold}}.jsonl",
    log:
        f"{LOGS}/gold/{{gold}}.log",
    localrule: True
    params:
        gold=gold_reading,
        code=code_version("scripts/make_gold.py"),
    message:
        "Making the gold of {wildcards.gold}"
    script:
        "../../scripts/make_gold.py"
