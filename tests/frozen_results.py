"""What an earlier version wrote, and how the results of this one differ from it.

`python tests/frozen_results.py FOLDER ARCHIVE` freezes the results of a study, or a store. The demo's store is large
and never frozen again: it shows that what an earlier version stored is read.
"""

import csv
import io
import math
import re
import sys
import tarfile
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

FROZEN = Path(__file__).parent / "frozen"
NUMBERS = "results_table/results.csv"
SHOWN = ("tables/*", "figures/*.csv", "figures/*.tex", "figures/*.caption*.md", "methods.*")
NUMBERS_AGREE = 1e-12
# Files that numbers come from, as the archives name them, and where they are since.
MOVED = {"judge_agreement.json": "estimates/judge_agreement.json"}
# Rows that the results table, and tables that list its rows, did not have when they were frozen: numbers that tables
# and figures showed out of another file. These tables hold their values, and so does tests/independent/.
ADDED = (
    *("tradeoff_correlation", "pareto_front", "language_rate", "language_difference_p"),
    *("rate_difference_first", "rate_difference_second", "rate_difference_clusters", "mcnemar_first", "mcnemar_second"),
    *("refusal_rate_rg_transfer_unclipped", "refusal_rate_rg_transfer_by_model", "ppi_labels"),
    *("judge_sensitivity_spread", "judge_specificity_spread"),
)
# The paragraph of the methods section that names the versions of today.
SOFTWARE = re.compile(
    r"^\*\*Software\.\*\*.*$|\\paragraph\{Software\.?\}.*?(?=\\paragraph|\Z)", re.MULTILINE | re.DOTALL
)


def freeze(folder: Path, archive: Path) -> None:
    """Keep the results table, all tables, captions, data of figures and the methods section of a study; or a store."""
    if (folder / NUMBERS).is_file():
        paths = [folder / NUMBERS, *(path for pattern in SHOWN for path in folder.glob(pattern))]
        kept = {f"results/{path.relative_to(folder)}": path for path in paths}
    else:
        kept = {f"store/{path.relative_to(folder)}": path for path in folder.rglob("*.jsonl")}
    with tarfile.open(archive, "w:xz", preset=9) as file:
        for name, path in sorted(kept.items()):
            member = tarfile.TarInfo(name)
            member.size = path.stat().st_size
            with path.open("rb") as content:
                file.addfile(member, content)


def thawed(archive: Path, folder: Path) -> Path:
    """Return the folder into which an archive was unpacked."""
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    return folder


def differences(frozen: Path, results: Path) -> Iterator[str]:
    """Yield how results differ from frozen ones: numbers by more than 1e-12, all that is shown by a byte."""
    yield from _other_numbers((frozen / NUMBERS).read_text("utf-8"), (results / NUMBERS).read_text("utf-8"))
    names = {str(path.relative_to(folder)) for folder in (frozen, results) for p in SHOWN for path in folder.glob(p)}
    for name in sorted(names):
        if not (frozen / name).is_file() or not (results / name).is_file():
            yield f"{name}: {'lacking' if (frozen / name).is_file() else 'new'}"
        elif _shown(frozen / name) != _shown(results / name):
            yield f"{name}: other bytes"


def called_peoples(results: Path, names: Sequence[str]) -> Iterator[str]:
    """Yield what is shown of gold with these names, which no person labelled, and speaks of people.

    That is a sentence, and in a CSV a column next to a row that has one of the names. Where a sentence names people's
    labels and then "the labels that the author of ..." intended, these are two.
    """
    for path in sorted(path for pattern in SHOWN for path in results.glob(pattern)):
        text = path.read_text("utf-8")
        if path.suffix != ".csv":
            line = " ".join(text.replace("\\", "").split())
            sentences = re.split(r"(?<=[.;:])\s|, and (?=the labels that the author of )", line)
            found = [one for one in sentences if any(name in one for name in names) and "people" in one.lower()]
        else:
            rows = list(csv.DictReader(io.StringIO(text, newline="")))
            named = [row for row in rows if set(names) & set(row.values())]
            found = [column for column in (named[0] if named else ()) if "people" in column]
        yield from (f"{path.name}: {one}" for one in found)


def _shown(path: Path) -> str:
    text = path.read_text("utf-8")
    if path.suffix == ".csv":
        return "".join(line for line in text.splitlines(keepends=True) if not set(ADDED) & set(line.split(",")))
    return SOFTWARE.sub("", text) if path.stem == "methods" else text


def _other_numbers(before: str, after: str) -> Iterator[str]:
    old, new = (
        [row for row in csv.DictReader(io.StringIO(text, newline="")) if row["estimand"] not in ADDED]
        for text in (before, after)
    )
    for number, (was, now) in enumerate(zip_longest(old, new, fillvalue={}), start=2):
        was = {column: MOVED.get(text, text) if column == "source" else text for column, text in was.items()}
        for column in was | now:
            if not _same(was.get(column), now.get(column)):
                yield f"{NUMBERS} row {number}, {column}: {was.get(column)} is now {now.get(column)} ({was})"


def _same(before: str | None, after: str | None) -> bool:
    if before == after:
        return True
    try:
        return math.isclose(float(before or ""), float(after or ""), rel_tol=0, abs_tol=NUMBERS_AGREE)
    except ValueError:
        return False


if __name__ == "__main__":
    freeze(*map(Path, sys.argv[1:]))
