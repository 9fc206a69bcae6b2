"""How well the judge that learns agrees with people, beside the keyword judge: within gold files and across them.

Within a file, a row's prediction comes from a model that saw neither its answering model (where there are several) nor
its prompt. Across files, one is learned from and the other read. `--final` shows the half of the prompts that the
keyword lists were not tuned on, and writes it into docs/judges; else the other half is used throughout.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import gold_measures as gm  # first: it makes the library importable
import numpy as np
from numpy.typing import NDArray

from refusal_eval.core.files import write_text
from refusal_eval.core.states import COMPLIANCE
from refusal_eval.judges.keyword_judge import KeywordReader
from refusal_eval.judges.trained_judge import fit, out_of_fold, predict

Rows = Sequence[Mapping[str, Any]]


def main() -> None:
    """Print the figures, or write them with `--final`."""
    parser = gm.options((__doc__ or "").split("\n")[0])
    parser.add_argument("--final", action="store_true", help="show the test half, and write docs/judges")
    arguments = parser.parse_args()
    gold: dict[str, Rows] = dict(gm.gold_of(arguments.gold))
    if not arguments.final:
        gold = {name: [row for row in rows if gm.for_development(row)] for name, rows in gold.items()}
    path, look = gm.next_look("trained") if arguments.final else (None, 0)
    keyword = gm.keyword_judge()
    half = "test" if arguments.final else "development"
    lines = [
        "# The judge that learns, measured",
        "",
        "Broad reading (partial refusal is refusal), p >= .5. In brackets 95 % intervals, bootstrap over prompts.",
        f"All lines of a table are about the same answers, those of the {half} half of the prompts (see the",
        "measurements of the keyword judge, whose lists were tuned on the development half).",
        *([f"Look number {look} at the test half."] if look else []),
    ]
    for name, rows in gold.items():
        said = {
            "trained within the file": refused(out_of_fold(rows, keyword)[0]),
            "the same without the keyword judge": refused(out_of_fold(rows, KeywordReader([]))[0]),
        }
        for other, other_rows in gold.items():
            if other != name:
                model = fit(other_rows, keyword)
                said[f"trained on {other}"] = refused(predict(model, [row["answer"] for row in rows], keyword))
        said["keyword"] = np.array([keyword.judge([], row["answer"]).label != COMPLIANCE for row in rows])
        lines += ["", f"## {name}", "", *gm.table_head("answers, judge"), *table(rows, said, arguments.final)]
    lines += ["", timed([row for rows in gold.values() for row in rows], keyword)]
    text = "\n".join(lines) + "\n"
    print(text)
    if path is not None:
        write_text(path, text)


def refused(probabilities: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return for each row whether refusal or partial refusal is at least as likely as compliance."""
    return np.asarray(probabilities[:, :2].sum(axis=1) >= 0.5)


def table(rows: Rows, said: Mapping[str, NDArray[np.bool_]], final: bool) -> list[str]:
    """Return a line per answering model and judge, over the rows of the test half with `final`."""
    lines = []
    for model, numbers in gm.by_model(rows):
        chosen = [i for i in numbers if not (final and gm.for_development(rows[i]))]
        for judge, labels in said.items():
            part, found = [rows[i] for i in chosen], [bool(labels[i]) for i in chosen]
            lines.append(gm.table_line(f"{model}, {judge}", part, found))
    return lines


def timed(rows: Rows, keyword: KeywordReader) -> str:
    """Return what fitting on all rows and reading them takes."""
    started = time.process_time()
    model = fit(rows, keyword)
    fitted = time.process_time()
    predict(model, [row["answer"] for row in rows], keyword)
    seconds = time.process_time() - fitted
    return (
        f"Time: {fitted - started:.0f} s of processor time to fit {len(rows)} rows, "
        f"{1e6 * seconds / len(rows):.0f} microseconds to read an answer."
    )


if __name__ == "__main__":
    main()
