"""How well the keyword judge agrees with people, beside a plain list of prefixes; and how long an answer takes it.

config/gold/made_up_answers.jsonl is measured beside the gold: 240 answers that were written for this purpose, in the
manner of many model families (`family`), in English and Chinese, and labelled by who wrote them. No phrase was written
for them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import gold_measures as gm  # first: it makes the library importable
from measuring import ROOT

from refusal_eval.core.files import read_jsonl
from refusal_eval.core.states import COMPLIANCE, LABELS
from refusal_eval.judges.keyword_judge import KeywordReader

MADE_UP = ROOT / "config" / "gold" / "made_up_answers.jsonl"


def main() -> None:
    """Print the figures."""
    gold = gm.by_source(gm.gold_of(gm.options((__doc__ or "").split("\n")[0]).parse_args().gold))
    judge = gm.keyword_judge()
    lines = [
        "Broad reading (partial refusal is refusal). In brackets 95 % intervals, bootstrap over prompts.",
        f"`prefixes` is a plain list of {len(gm.PREFIXES)} phrases that an answer may begin with.",
    ]
    seconds = answers = 0.0
    for name, rows in gold.items():
        started = time.process_time()
        labels = [judge.judge([], row["answer"]).label or "" for row in rows]
        seconds, answers = seconds + time.process_time() - started, answers + len(rows)
        lines += ["", f"## {name}", "", *gm.table_head("answers, judge"), *compared(rows, labels)]
        lines += ["", *confusion(rows, labels)]
    lines += made_up(judge)
    lines += ["", f"Time: {1e6 * seconds / answers:.0f} microseconds of processor time an answer, on one core."]
    print("\n".join(lines))


def made_up_rows() -> list[dict[str, Any]]:
    """Return the made-up answers as rows of gold; every answer is a cluster of its own."""
    return [{**row, "answering_model": "made up", "cluster": number} for number, row in enumerate(read_jsonl(MADE_UP))]


def made_up(judge: KeywordReader) -> list[str]:
    """Return the section on the made-up answers: of all of them, and of each language."""
    rows = made_up_rows()
    labels = [judge.judge([], row["answer"]).label or "" for row in rows]
    lines = ["", "## Made-up answers (config/gold/made_up_answers.jsonl)", ""]
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
