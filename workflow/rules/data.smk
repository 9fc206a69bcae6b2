"""Data: from rows on the hub, in wheels and in files to prompts and gold.

Reads the sources of `split_entries` and `gold_entries`. Writes <cache>/rows/, prompts/, gold/, and answers/gold/ (gold
as answers of a model called "gold", which the judging rules treat like any other). Only `fetch_rows` needs a network.
"""

from refusal_eval.workflow import data_stage


rule fetch_rows:
    """Fetch the rows of one source at its locked revision; faults of the network are tried again by the script."""
    output:
        f"{CACHE}/rows/{{source}}/{{file}}",
    log:
        f"{LOGS}/fetch_rows/{{source}}/{{file}}.log",
    wildcard_constraints:
        source=folder_not_there(data_stage.fetched_rows(study)),
        file="[^/]+",
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=4000,
        runtime=240,
    params:
        source=lambda wildcards: study.fetched("splits", "gold")[wildcards.source].param(),
    message:
        "Fetching the rows in {output}"
    script:
        "../../scripts/fetch_rows.py"


rule prompts:
    """Give the prompts of one split their ids, drop duplicates, take the sample."""
    input:
        rows=rows_of("split_entries"),
        read=answers_made_of,
        files=row_files,
        clusters=clusters_of("split_entries"),
    output:
        prompts=f"{RESULTS}/prompts/{{split}}.jsonl",
    log:
        f"{LOGS}/prompts/{{split}}.log",
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        split=lambda wildcards: data_stage.split_reading(study, wildcards.split, ROOT),
        code=lambda wildcards: code_version(
            ROOT / "scripts" / "make_prompts.py",
            *data_stage.row_readers(study),
            *data_stage.making_modules(study, wildcards.split),
        ),
    message:
        "Making the prompts of {wildcards.split}"
    script:
        "../../scripts/make_prompts.py"


rule gold:
    """Map the labels of one gold source; write gold, and gold as answers."""
    input:
        rows=rows_of("gold_entries"),
        clusters=clusters_of("gold_entries"),
    output:
        gold=f"{RESULTS}/gold/{{gold}}.jsonl",
        answers=f"{RESULTS}/answers/gold/{{gold}}.jsonl",
    log:
        f"{LOGS}/gold/{{gold}}.log",
    localrule: True
    conda:
        "../../envs/workflow.yaml"
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        gold=lambda wildcards: data_stage.gold_reading(study, wildcards.gold, ROOT),
        code=code_version(ROOT / "scripts" / "make_gold.py"),
    message:
        "Making the gold of {wildcards.gold}"
    script:
        "../../scripts/make_gold.py"
