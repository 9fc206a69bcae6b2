"""Turn the rows of a split into prompts."""

from typing import Any

from refusal_eval.data.prompts import make_prompts
from refusal_eval.data.rows import read_rows
from refusal_eval.files import write_jsonl
from refusal_eval.logs import start_log


def main(snakemake: Any) -> None:
    """Write the split's prompts to the rule's output."""
    log = start_log(snakemake)
    split = snakemake.params.split
    rows = read_rows(snakemake.input.rows, split["skip_lines"], split["name"])
    prompts, notes = make_prompts(rows, split["columns"], split["name"], split["expected_rows"], split["samples"])
    for note in notes:
        log.info("%s", note)
    write_jsonl(snakemake.output.prompts, prompts)


if "snakemake" in globals():
    main(globals()["snakemake"])
