"""How well the keyword judge agrees with people, beside a plain list of prefixes; and how long an answer takes it.

Rules are tuned on one half of the prompts (a fixed hash of the text). `--final` also looks at the other half and writes
both into docs/judges, where earlier looks stay: a second look at a test half is worth less than the first.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import gold_measures as gm  # first: it makes the library importable

from refusal_eval.files import written_whole
from refusal_eval.states import COMPLIANCE, LABELS


def main() -> None:
    """Print the figures, or write them with `--final`."""
    parser = gm.options((__doc__ or "").split("\n")[0])
    parser.add_argument("--final", action="store_true", help="look at the test half too, and write docs/judges")
    arguments = parser.parse_args()
    gold = gm.gold_of(arguments.gold)
    judge = gm.keyword_judge()
    lines = head(arguments.final)
    seconds = answers = 0.0
    for name, rows in gold.items():
        for half, wanted in (("development", True), ("test", False)):
            if wanted or arguments.final:
                part = [row for row in rows if gm.for_development(row) == wanted]
                started = time.process_time()
                labels = [judge.judge([], row["answer"]).label or "" for row in part]
                seconds, answers = seconds + time.process_time() - started, answers + len(part)
                lines += ["", f"## {name}, {half} half", "", *gm.table_head("answers, judge"), *compared(part, labels)]
                lines += ["", *confusion(part, labels)]
    lines += ["", f"Time: {1e6 * seconds / answers:.0f} microseconds of processor time an answer, on one core."]
    text = "\n".join(lines) + "\n"
    print(text)
    if arguments.final:
        with written_whole(gm.dated("keyword")) as stream:
            stream.write(text)


def head(final: bool) -> list[str]:
    """Return the title and what the figures are."""
    looks = len(list(gm.dated("keyword").parent.glob("keyword-*.md"))) + 1 if final else 0
    shown = f"Look number {looks} at the test half." if final else "The test half was not looked at."
    return [
        "# The keyword judge, measured",
        "",
        "Broad reading (partial refusal is refusal). In brackets 95 % intervals, bootstrap over prompts. A prompt",
        "belongs to the development half when the SHA-256 of its text is even; the rules were tuned on that half only.",
        f"{shown} `prefixes` is a plain list of {len(gm.PREFIXES)} phrases that an answer may begin with.",
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
