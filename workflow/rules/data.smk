"""Data: from rows on the hub, in wheels and in files to prompts and gold.

Reads the sources of `split_entries` and `gold_entries`. Writes <cache>/rows/, prompts/, gold/, and answers/gold/ (gold
as answers of a model called "gold", which the judging rules treat like any other). Only `fetch_rows` needs a network.
"""


rule fetch_rows:
    """Fetch the rows of one source at its locked revision; faults of the network are tried again by the script."""
    output:
        f"{CACHE}/rows/{{source}}/{{file}}",
    log:
        f"{LOGS}/fetch_rows/{{source}}/{{file}}.log",
    wildcard_constraints:
        source=folder_not_there(data.fetched_rows()),
        file="[^/]+",
    localrule: True
    params:
        source=data.source,
    message:
        "Fetching the rows in {output}"
    script:
        "../../scripts/fetch_rows.py"


rule prompts:
    """Give the prompts of one split their ids, drop duplicates, take the sample."""
    input:
        rows=data.split_rows,
        clusters=data.split_clusters,
    output:
        prompts=f"{RESULTS}/prompts/{{split}}.jsonl",
    log:
        f"{LOGS}/prompts/{{split}}.log",
    localrule: True
    params:
        split=data.split_reading,
        code=code_version(ROOT / "scripts" / "make_prompts.py"),
    message:
        "Making the prompts of {wildcards.split}"
    script:
        "../../scripts/make_prompts.py"


rule gold:
    """Map the labels of one gold source; write gold, and gold as answers."""
    input:
        rows=data.gold_rows,
        clusters=data.gold_clusters,
    output:
        gold=f"{RESULTS}/gold/{{gold}}.jsonl",
        answers=f"{RESULTS}/answers/gold/{{gold}}.jsonl",
    log:
        f"{LOGS}/gold/{{gold}}.log",
    localrule: True
    params:
        gold=data.gold_reading,
        code=code_version(ROOT / "scripts" / "make_gold.py"),
    message:
        "Making the gold of {wildcards.gold}"
    script:
        "../../scripts/make_gold.py"
