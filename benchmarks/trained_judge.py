"""How well the judge that learns agrees with people on answering models and prompts that it never saw, and what helps.

Each answer is judged by a fit that saw neither its answering model nor its prompt, on all gold files together. The
features are taken away in turn. Choices are made on one half of the prompts; `--final` shows the other half, and writes
it into docs/judges. The encoder's vectors are kept in `.cache/benchmarks`.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gold_measures as gm  # first: it makes the library importable
import numpy as np
from measuring import ROOT
from numpy.typing import NDArray

from refusal_eval.ask.render import Renderer
from refusal_eval.core.files import sha256_of, written_whole
from refusal_eval.core.states import COMPLIANCE, REFUSAL
from refusal_eval.judges.keyword_judge import KeywordReader
from refusal_eval.judges.trained_judge import TEXTS, TrainedJudge, features, out_of_fold
from refusal_eval.study.engine_environment import engine_python

Rows = Sequence[Mapping[str, Any]]
EMBED = """
import json, sys
sys.path.insert(0, sys.argv[1])
from classifier_server import Model
model = Model(sys.argv[2], "cpu", "float32", "mean", False)
asked = json.load(sys.stdin)
order = sorted(range(len(asked)), key=lambda i: len(asked[i]))
found = [None] * len(asked)
for start in range(0, len(order), 16):
    part = order[start : start + 16]
    for i, vectors in zip(part, model.values([asked[i] for i in part])):
        found[i] = vectors
json.dump(found, sys.stdout)
"""


def main() -> None:
    """Print the figures, or write them with `--final`."""
    parser = gm.options((__doc__ or "").split("\n")[0])
    parser.add_argument("--encoder", type=Path, required=True, help="folder of the encoder, e.g. that of minilm-l6")
    parser.add_argument("--tokens", type=int, default=64, help="of each text")
    parser.add_argument("--final", action="store_true", help="show the test half, and write docs/judges")
    arguments = parser.parse_args()
    path, look = gm.next_look("trained") if arguments.final else (None, 0)
    keyword = gm.keyword_judge()
    rows = [row for rows in gm.gold_of(arguments.gold).values() for row in rows]
    vectors, seconds = embedded(rows, arguments.encoder, arguments.tokens)
    said = {"keyword": [keyword.judge([], row["answer"]).label for row in rows]}
    for name, kept in variants(vectors, rows, keyword).items():
        found, _ = out_of_fold([{**row, "features": kept[i]} for i, row in enumerate(rows)])
        said[name] = [REFUSAL if p[:2].sum() >= 0.5 else COMPLIANCE for p in found]
        said[f"{name}, at the best threshold"] = best_labels(rows, found)
    half = "test" if arguments.final else "development"
    shown = [i for i, row in enumerate(rows) if gm.for_development(row) != arguments.final]
    lines = [
        "# The judge that learns, measured",
        "",
        "Broad reading (partial refusal is refusal). In brackets 95 % intervals, bootstrap over prompts. Each answer is",
        "judged by a fit that saw neither its answering model nor its prompt. All lines of a table are about the same",
        f"answers, those of the {half} half of the prompts.",
        *([f"Look number {look} at the test half."] if look else []),
        "",
        *gm.table_head("answers, judge"),
        *table([rows[i] for i in shown], {name: [labels[i] for i in shown] for name, labels in said.items()}),
        "",
        f"The encoder read {len(rows)} answers ({TEXTS} texts each) in {seconds:.0f} s on {gm.cores()} cores.",
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    if path is not None:
        with written_whole(path) as stream:
            stream.write(text)


if __name__ == "__main__":
    main()
