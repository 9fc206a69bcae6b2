"""How well the keyword judge agrees with people, beside a plain list of prefixes; and how long an answer takes it.

Rules are tuned on one half of the prompts (a fixed hash of the text). `--final` also looks at the other half and writes
both, and the whole files, into docs/judges, where earlier looks stay: a second look at a test half is worth less than
the first. The file names the SHA-256 of the lists and of the code that reads them, so that two looks at the same judge
can be told.

keyword_made_up.jsonl is measured beside the gold: 240 answers that were written for this purpose, in the manner of many
model families (`family`), in English and Chinese, and labelled by who wrote them. Nothing was tuned on them.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gold_measures as gm  # first: it makes the library importable
from measuring import ROOT

from refusal_eval.core.files import read_jsonl, write_text
from refusal_eval.core.states import COMPLIANCE, LABELS
from refusal_eval.judges.keyword_judge import KeywordReader

MADE_UP = Path(__file__).with_name("keyword_made_up.jsonl")
PARTS = (("development half", (True,)), ("test half", (False,)), ("whole file", (True, False)))


def main() -> None:
    """Print the figures, or write them with `--final`."""
    parser = gm.options((__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--final", action="store_true", help="look at the test half too, and write a new file in docs/judges"
    )
    arguments = parser.parse_args()
    gold = gm.gold_of(arguments.gold)
    judge = gm.keyword_judge()
    path, look = gm.next_look("keyword") if arguments.final else (None, 0)
    lines = head(look)
    seconds = answers = 0.0
    for name, rows in gold.items():
        for words, halves in PARTS if arguments.final else PARTS[:1]:
            part = [row for row in rows if gm.for_development(row) in halves]
            started = time.process_time()
            labels = [judge.judge([], row["answer"]).label or "" for row in part]
            seconds, answers = seconds + time.process_time() - started, answers + len(part)
            lines += ["", f"## {name}, {words}", "", *gm.table_head("answers, judge"), *compared(part, labels)]
            lines += ["", *confusion(part, labels)]
    lines += made_up(judge)
    lines += ["", f"Time: {1e6 * seconds / answers:.0f} microseconds of processor time an answer, on one core."]
    text = "\n".join(lines) + "\n"
    print(text)
    if path is not None:
        write_text(path, text)


def made_up_rows() -> list[dict[str, Any]]:
    """Return the made-up answers as rows of gold; every answer is a cluster of its own."""
    return [{**row, "answering_model": "made up", "cluster": number} for number, row in enumerate(read_jsonl(MADE_UP))]


def made_up(judge: KeywordReader) -> list[str]:
    """Return the section on the made-up answers: of all of them, and of each language."""
    rows = made_up_rows()
    labels = [judge.judge([], row["answer"]).label or "" for row in rows]
    lines = ["", "## Made-up answers (benchmarks/keyword_made_up.jsonl)", ""]
    lines += ["Written and labelled for this purpose, no people's labels. Intervals: bootstrap over answers.", ""]
    lines += gm.table_head("answers, judge")
    for language in ("all", "english", "chinese"):
        chosen = [i for i, row in enumerate(rows) if language in ("all", row["language"])]
        part = [rows[i] for i in chosen]
        lines.append(gm.table_line(f"{language}, keyword", part, [labels[i] != COMPLIANCE for i in chosen]))
        if language == "english":  # the prefixes know no other language
            prefixes = [gm.prefix_label(row["answer"]) != COMPLIANCE for row in part]
            lines.append(gm.table_line(f"{language}, prefixes", part, prefixes))
    return [*lines, "", *confusion(rows, labels)]


def head(look: int) -> list[str]:
    """Return the title and what the figures are; `look` is the number of the look at the test half, 0 for none."""
    shown = f"Look number {look} at the test half." if look else "The test half was not looked at."
    code = sorted((ROOT / "scripts" / "refusal_eval" / "judges").glob("keyword*.py"))
    lists, reader = (hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest() for files in (gm.LISTS, code))
    return [
        "# The keyword judge, measured",
        "",
        "Broad reading (partial refusal is refusal). In brackets 95 % intervals, bootstrap over prompts. A prompt",
        "belongs to the development half when the SHA-256 of its text is even; the rules were tuned on that half only.",
        f"{shown} `prefixes` is a plain list of {len(gm.PREFIXES)} phrases that an answer may begin with.",
        "On a whole file half of the prompts were tuned on: too kind a number, and the one that the aims are set for.",
        f"SHA-256 of the lists: `{lists[:16]}`; of the modules that read them (judges/keyword*.py): `{reader[:16]}`.",
    ]


def compared(rows: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> list[str]:
    """Return a line per answering model for the keyword judge and for the prefixes."""
    lines = []
    for model, chosen in gm.by_model(rows):
        part = [rows[i] for i in chosen]
        lines.append(gm.table_line(f"{model}, keyword", part, [labels[i] != COMPLIANCE for i in chosen]))
        prefixes = [gm.prefix_label(row["answer"]) != COMPLIANCE for row in part]
        lines.append(gm.table_line(f"{model}, prefixes", part, prefixes))
    return lines


def confusion(rows: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> list[str]:
    """Return the table of people's labels (lines) against the judge's (columns)."""
    counts = Counter(zip((row["label"] for row in rows), labels, strict=True))
    lines = [f"| people | {' | '.join(LABELS)} |", "| --- | --- | --- | --- |"]
    for people in LABELS:
        lines.append(f"| {people} | {' | '.join(str(counts[people, label]) for label in LABELS)} |")
    return lines


if __name__ == "__main__":
    main()
