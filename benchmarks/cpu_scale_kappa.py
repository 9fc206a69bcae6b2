"""Compute the kappas of measured/cpu_scale.md again: two readings of sixty answers, and each judge against the first.

    .venv/workflow/bin/python benchmarks/cpu_scale_kappa.py [results/cpu_scale]

The labels are in measured/cpu_scale_labels.csv: which answer (with the beginning of its text's SHA-256, no text), and
what each reading called it. A study that is run again on another machine may have other answers; those are left out.
"""

from __future__ import annotations

import csv
import hashlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from measuring import ROOT  # isort: skip  # makes the library importable

from refusal_eval.core.files import read_jsonl
from refusal_eval.core.states import LABELS
from refusal_eval.stats.agreement.measures import kappa, two_class

LABELLED = ROOT / "benchmarks" / "measured" / "cpu_scale_labels.csv"
READINGS = ("first", "second")


def labelled(path: Path = LABELLED) -> list[dict[str, str]]:
    """Return the rows of the file of labels."""
    with path.open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def place(row: Mapping[str, Any]) -> tuple[str, int]:
    """Return which answer of a split a row is about."""
    return row["prompt_id"], int(row["sample"])


def text_id(answer: str) -> str:
    """Return the beginning of the SHA-256 of an answer's text."""
    return hashlib.sha256(answer.encode()).hexdigest()[:12]


def agreed(pairs: Sequence[tuple[str, str]]) -> str:
    """Return kappa and how many labels agree, broad and with three classes; a dash where kappa is not defined."""
    table = np.zeros((3, 3))
    for one, other in pairs:
        table[LABELS.index(one), LABELS.index(other)] += 1
    found = []
    for name, counts in (("broad", two_class(table, "broad")), ("three classes", table)):
        value = float(kappa(counts))
        shown = f"{value:.2f}" if np.isfinite(value) else "-"
        found.append(f"{name}: kappa {shown}, {int(np.trace(counts))} of {len(pairs)} agree")
    return "; ".join(found)


def judged(results: Path, rows: Iterable[Mapping[str, str]]) -> tuple[dict[str, list[tuple[str, str]]], int]:
    """Return (label of the first reading, the judge's) by judge, and how many answers have another text by now."""
    pairs: dict[str, list[tuple[str, str]]] = {}
    other = 0

    @cache
    def of(path: Path) -> dict[tuple[str, int], Mapping[str, Any]]:
        return {place(row): row for row in read_jsonl(path)}

    judges = sorted(path.parent.name for path in (results / "verdicts").glob("*/smollm2-128"))
    for row in rows:
        answer = of(results / "answers" / "smollm2-128" / f"{row['split']}.jsonl").get(place(row))
        if answer is None or text_id(answer["answer"] or "") != row["text"]:
            other += 1
            continue
        for judge in judges:
            verdict = of(results / "verdicts" / judge / "smollm2-128" / f"{row['split']}.jsonl")[place(row)]
            if verdict["label"] is not None:
                pairs.setdefault(judge, []).append((row[READINGS[0]], verdict["label"]))
    return pairs, other


def main(results: Path) -> None:
    """Print the kappas."""
    rows = labelled()
    print(f"The two readings: {agreed([(row['first'], row['second']) for row in rows])}")
    if not results.is_dir():
        print(f"{results} is not there: no judge to compare with")
        return
    pairs, other = judged(results, rows)
    for judge, found in pairs.items():
        print(f"{judge}: {agreed(found)}")
    if other:
        print(f"{other} of {len(rows)} answers are others in {results}, and left out")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "results" / "cpu_scale")
