"""Turn the rows of a gold source into gold, and into answers that judges can read."""

from typing import Any

from refusal_eval.data.gold import gold_answers, make_gold
from refusal_eval.data.rows import read_rows
from refusal_eval.files import write_jsonl
from refusal_eval.logs import start_log


def main(snakemake: Any) -> None:
    """Write gold rows and the same as answers to the rule's outputs."""
    log = start_log(snakemake)
    entry = snakemake.params.gold
    rows = read_rows(snakemake.input.rows, entry["skip_lines"], entry["name"], entry.get("encoding"))
    gold, notes = make_gold(rows, entry["columns"], entry["labels"], entry["name"], entry["expected_rows"])
    for note in notes:
        log.info("%s", note)
    write_jsonl(snakemake.output.gold, gold)
    write_jsonl(snakemake.output.answers, gold_answers(gold))


if "snakemake" in globals():
    main(globals()["snakemake"])
