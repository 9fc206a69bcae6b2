"""Turn the rows of a gold source into gold, and into answers that judges can read."""

from typing import Any

from refusal_eval.core.files import as_planned, write_jsonl
from refusal_eval.core.logs import start_log
from refusal_eval.data.gold import gold_answers, make_gold
from refusal_eval.data.rows import read_rows
from refusal_eval.data.selection import read_clusters

OPTIONS = (
    *("expected_rows", "answers", "left_out", "expectations", "expectation", "kinds", "denied_premises"),
    *("two_labels", "language_of", "flags", "slices"),
)


def main(snakemake: Any) -> None:
    """Write gold rows and the same as answers to the rule's outputs."""
    log = start_log(snakemake)
    entry = snakemake.params.gold
    for what in snakemake.config["gold_entries"][snakemake.wildcards.gold]["unverified"]:
        log.warning("%s: not verified when its entry was written: %s", entry["name"], what)
    files, options = snakemake.input, {name: entry[name] for name in OPTIONS if name in entry}
    hashes = [entry[name] for name in ("sha256", "clusters") if name in entry]
    with as_planned([files.rows, *files.clusters], hashes):
        rows = read_rows(files.rows, entry["skip_lines"], entry["name"], entry.get("encoding"))
        for path in files.clusters:
            options["clusters"] = read_clusters(read_rows(path), path)
    gold, notes = make_gold(rows, entry["columns"], entry["labels"], entry["name"], **options)
    for note in notes:
        log.info("%s", note)
    write_jsonl(snakemake.output.gold, gold)
    write_jsonl(snakemake.output.answers, gold_answers(gold))


if snakemake := globals().get("snakemake"):
    main(snakemake)
