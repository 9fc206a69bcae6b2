"""Turn the rows of a split into prompts."""

from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.config.kinds import ROW_READERS
from refusal_eval.core.files import as_planned, write_jsonl
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.data.prompts import make_prompts
from refusal_eval.data.rows import read_rows
from refusal_eval.data.selection import read_clusters
from refusal_eval.study.row_sources import row_source

OPTIONS = ("expected_rows", "samples", "mode", "where", "expected_kept", "copies", "match", "categories")


def main(
    rows_path: str,
    split: Mapping[str, Any],
    scored: str | None,
    output: str,
    clusters_path: str | None = None,
    unverified: Sequence[str] = (),
    read: Sequence[str] = (),
) -> None:
    """Write the prompts of one split.

    Args:
        split: what decides its prompts (see `workflow.data_stage.split_reading`).
        scored: which turns of its dialogues count. It changes no prompt, and so is no param of the rule; it only
            lets a row of which no turn would count fail here, and not when all has been asked and judged.
        clusters_path: the file with the clusters of the rows, if there is one.
        unverified: what nobody could verify of the split's entry; for the log only.
        read: the files with the answers and verdicts that the rows are made of.
    """
    source = row_source(split["source"])
    whose = "not verified when its entry was written"
    if not source.fetched:  # such an entry may have been written for a release, and then given another source
        whose = "not verified of the data as released (this is a file of your own)"
    for what in unverified:
        LOG.warning("%s: %s: %s", split["name"], whose, what)
    rows = source.own_rows(rows_path, *read)
    if rows is None:
        rows = read_rows(rows_path, split["skip_lines"], split["name"], split.get("encoding"))
    clusters = read_clusters(read_rows(clusters_path), clusters_path) if clusters_path else None
    options: dict[str, Any] = {name: split[name] for name in OPTIONS if name in split}
    reader = next((ROW_READERS.get(key)(split[key]) for key in ROW_READERS.names() if key in split), None)
    options |= {"scored": scored, "clusters": clusters, "reader": reader, "have_ids": source.have_ids}
    prompts, notes = make_prompts(rows, split["columns"], split["name"], **options)
    for note in notes:
        LOG.info("%s", note)
    write_jsonl(output, prompts)


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    entry = snakemake.config["split_entries"][snakemake.wildcards.split]
    files, reading = snakemake.input, snakemake.params.split
    hashes = [reading[name] for name in ("sha256", "clusters") if name in reading]
    hashes += reading.get("files_sha256", [])
    with as_planned([files.rows, *files.clusters, *files.files], hashes):
        main(
            files.rows,
            reading,
            (entry["dialogue"] or {}).get("scored"),
            snakemake.output.prompts,
            next(iter(files.clusters), None),
            entry["unverified"],
            files.read,
        )
