"""What the rules in workflow/rules/data.smk ask of a study: the rows of splits and gold, and how they are read."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from refusal_eval.config.feature_keys import SPLIT_KEYS
from refusal_eval.config.kinds import ROW_READERS, ROW_SOURCES
from refusal_eval.config.source_entries import AnswersRead, RowSource
from refusal_eval.core.files import shown_path
from refusal_eval.study.row_sources import row_source
from refusal_eval.study.study import Study
from refusal_eval.workflow.rule_files import content_hash

LATER_COLUMNS = ("turns", "keep", "right", "parent")
LATER_GOLD_COLUMNS = ("messages", "weight", "id", "language")
LATER_GOLD_KEYS = ("answers", "left_out", "expectations", "expectation", "kinds", "denied_premises", "flags", "slices")
LATER_GOLD_WORDS = {"two_labels": "error", "language_of": "prompt"}  # with what they are where an entry says nothing


def fetched_rows(study: Study) -> list[str]:
    """Return the files of all rows that are fetched."""
    return [source.copy_file(study.paths.cache) for source in study.fetched("splits", "gold").values()]


def rows_file(study: Study, source: RowSource, root: Path, name: str = "") -> str:
    """Return the file with the rows of a source, or what they are made of: in the cache, or where it is kept.

    Args:
        root: the repository's folder.
        name: the split, of a source whose rows are made by rules of its own.
    """
    if source.made_in is not None:
        return study.paths.of(source.made_in, split=name)
    if source.made_of is not None:
        return study.paths.of("prompts", split=source.made_of)
    if source.fetched:
        return source.copy_file(study.paths.cache)
    return source.local_path(shown_path(root / "config" / "prompts"))


def answer_files(study: Study, split: str) -> list[str]:
    """Return the files with the answers, and the verdicts on them, that the rows of a split are made of."""
    return [_file_read(study, read) for read in study.entries("split")[split].source.reads(split)]


def _file_read(study: Study, read: AnswersRead) -> str:
    if read.model is None:
        return study.paths.of("prompts", split=read.split)
    if read.judge is None:
        return study.paths.of("answers", model=read.model, split=read.split)
    return study.paths.of("verdicts", judge=read.judge, model=read.model, split=read.split)


def making_modules(study: Study, split: str) -> list[Path]:
    """Return the module of a source that makes the rows of a split of answers, for `code_version`."""
    source = study.entries("split")[split].source
    return [ROW_SOURCES.module(source.kind)] if source.asked or source.reads(split) else []


def split_reading(study: Study, split: str, root: Path) -> dict[str, Any]:
    """Return the keys of a split that decide its prompts; its label, its expectation and which turns count do not."""
    entry = study.config["split_entries"][split]
    # A split that is made of another one's prompts has as many as these make: the other one is cut.
    most = None if study.entries("split")[split].source.made_of else study.config["prompts_per_split"]
    reading = {**_reading(study, entry, root), "samples": [entry["sample"], most]}
    source = study.entries("split")[split].source
    if files := source.files():
        reading["files_sha256"] = [content_hash(path) for path in files]
    # Answers of another model, or of the same one to other prompts, may be older than the output.
    if read := source.reads(split):
        reading["read"] = [list(one.part) for one in read]
    if entry.get("dialogue"):
        reading["mode"] = entry["dialogue"]["mode"]
    if entry.get("where"):
        reading |= {"where": entry["where"], "expected_kept": entry["expected_kept"]}
    if entry.get("clusters"):
        reading["clusters"] = content_hash(entry["clusters"])
    if entry.get("categories"):
        reading["categories"] = entry["categories"]
    if entry.get("match"):
        reading["match"] = entry["match"]
    for keys in map(SPLIT_KEYS.get, SPLIT_KEYS.names()):
        reading |= keys.reading(study.entries("split")[split])
    if study.protocol.keeps_copies:
        reading["copies"] = True
    return reading


def row_readers(study: Study) -> list[Path]:
    """Return the files of the classes that read rows of the study, for `code_version`."""
    every, splits = map(SPLIT_KEYS.get, SPLIT_KEYS.names()), study.entries("split").values()
    used = {key for keys in every for split in splits for key in keys.reading(split)}
    return [ROW_READERS.module(name) for name in ROW_READERS.names() if name in used]


def gold_reading(study: Study, gold: str, root: Path) -> dict[str, Any]:
    """Return the keys of a gold entry that decide its rows."""
    entry = study.config["gold_entries"][gold]
    reading = {**_reading(study, entry, root), "labels": entry["labels"]}
    columns = {key: named for key, named in entry["columns"].items() if key not in LATER_GOLD_COLUMNS or named}
    reading |= {"columns": columns} | {key: entry[key] for key in LATER_GOLD_KEYS if entry.get(key)}
    reading |= {key: entry[key] for key, usual in LATER_GOLD_WORDS.items() if entry[key] != usual}
    return reading | ({"clusters": content_hash(entry["clusters"])} if entry.get("clusters") else {})


def _reading(study: Study, entry: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """Return how rows are read: what is common to splits and gold."""
    source = row_source(entry["source"])
    # The source and a local file's content count: the file of another source, or an older copy put in its place,
    # may be older than the output, which Snakemake would not see.
    reading = {
        "source": source.param(),
        "sha256": None if source.fetched or source.made_of else content_hash(rows_file(study, source, root)),
        "name": source.name,
        "skip_lines": entry["source"].get("skip_lines", 0),
        # A key that came later is left out where it is not used: splits without it need not run again for it.
        "columns": {key: named for key, named in entry["columns"].items() if key not in LATER_COLUMNS or named},
        "expected_rows": entry["expected_rows"],
    }
    return reading | ({"encoding": entry["source"]["encoding"]} if entry["source"].get("encoding") else {})
