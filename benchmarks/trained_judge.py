"""How well the judge that learns agrees with people on answering models and prompts that it never saw, and what helps.

It learns from XSTest's completions, and is compared with fits on all gold and on made-up answers. The features are
taken away in turn. `--write` writes the page in measured/judges.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gold_measures as gm  # first: it makes the library importable
import numpy as np
import pandas as pd
from keyword_judge import made_up_rows
from measuring import ROOT
from numpy.typing import NDArray

from refusal_eval.ask.render import Renderer
from refusal_eval.core.files import write_text
from refusal_eval.core.states import COMPLIANCE, REFUSAL
from refusal_eval.judges.keyword_judge import KeywordReader
from refusal_eval.judges.trained_judge import TEXTS, TrainedJudge, features, fit, out_of_fold, predict, verdict
from refusal_eval.stats.agreement.soft import soft_measures
from refusal_eval.stats.estimates.intervals import seed_of
from refusal_eval.study.engine_environment import engine_python

Rows = Sequence[Mapping[str, Any]]
LEARNED = "xstest"  # how the names of the gold files begin that `trained` learns from
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
    """Print the figures, and write them with `--write`."""
    parser = gm.options((__doc__ or "").split("\n")[0])
    parser.add_argument("--encoder", type=Path, required=True, help="model folder of an encoder with mean pooling")
    parser.add_argument("--tokens", type=int, default=64, help="most tokens of each text")
    parser.add_argument("--vectors", type=Path, help="a .npz file that keeps the vectors, for another look")
    parser.add_argument("--write", action="store_true", help="write benchmarks/measured/judges/trained-DATE.md")
    arguments = parser.parse_args()
    path = gm.dated("trained") if arguments.write else None
    keyword, gold = gm.keyword_judge(), gm.gold_of(arguments.gold)
    rows = [row for part in gold.values() for row in part]
    learned = np.array([name.startswith(LEARNED) for name, part in gold.items() for _ in part])
    made_up = [{**row, "cluster": row["prompt"]} for row in made_up_rows()]
    if arguments.vectors is not None and arguments.vectors.exists():
        kept = np.load(arguments.vectors)
        vectors, seconds = kept["vectors"], float(kept["seconds"])
    else:
        vectors, seconds = embedded([*rows, *made_up], arguments.encoder, arguments.tokens)
        if arguments.vectors is not None:
            np.savez(arguments.vectors, vectors=vectors, seconds=seconds)
    found = {name: unseen(rows, own, learned) for name, own in variants(vectors[: len(rows)], rows, keyword).items()}
    whole = features_of(vectors, [*rows, *made_up], keyword)
    found["trained on all gold"], _ = out_of_fold(with_features(rows, whole))
    found["trained-demo"] = predict(fit(with_features(made_up, whole[len(rows) :])), whole[: len(rows)])
    said = {"keyword": [keyword.judge([], row["answer"]).label or "" for row in rows]}
    said |= {name: [verdict(p).label or "" for p in probabilities] for name, probabilities in found.items()}
    lines = [
        "# The judge that learns, measured",
        "",
        "`trained` learns from XSTest's completions, as `trained-english` does: each of their answers is judged by a",
        "fit that saw neither its answering model nor its prompt, answers of gpt-3.5-turbo (chatgpt-refusals) by a fit",
        "to all of them. `trained on all gold` learns from both sets, model and prompt left out in the same way.",
        "`trained-demo` saw none of these answers: it is fitted on the made-up ones of config/gold. In brackets 95 %",
        "intervals, bootstrap over prompts. The table is of the broad reading (partial refusal is refusal), p >= .5.",
        "Which texts it reads and how much the vectors weigh was chosen on these answers. The keyword lists were tuned",
        "on half of the prompts of gpt-3.5-turbo, gpt-4 and llama2new, and their rules chosen on all.",
        "",
        *gm.table_head("answers, judge"),
        *table(rows, said),
        "",
        "Strict reading (partial refusal is compliance), and the expected calibration error of p (broad):",
        "",
        "| answers | kappa strict, keyword | kappa strict, trained | calibration error, trained | if calibrated |",
        "| --- | --- | --- | --- | --- |",
        *strict_table(rows, said, found["trained"]),
        "",
        f"The encoder read {len(vectors)} answers, {TEXTS} texts of at most {arguments.tokens} tokens each, in "
        f"{seconds:.0f} s ({len(vectors) / seconds:.0f} a second) on {len(os.sched_getaffinity(0))} cores.",
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    if path is not None:
        write_text(path, text)


def with_features(rows: Rows, own: NDArray[np.float64]) -> list[dict[str, Any]]:
    """Return rows with their features."""
    return [{**row, "features": one} for row, one in zip(rows, own, strict=False)]


def features_of(vectors: NDArray[np.float32], rows: Rows, keyword: KeywordReader) -> NDArray[np.float64]:
    """Return the features of each row."""
    return np.array([features(one, row["answer"], keyword) for one, row in zip(vectors, rows, strict=True)])


def unseen(rows: Rows, own: NDArray[np.float64], learned: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return probabilities of the labels: out of fold for what is learned from, by a fit to that for other rows."""
    taught = with_features([rows[i] for i in np.flatnonzero(learned).tolist()], own[learned])
    found = np.zeros((len(rows), 3))
    found[learned], _ = out_of_fold(taught)
    if not learned.all():
        found[~learned] = predict(fit(taught), own[~learned])
    return found


def strict_table(rows: Rows, said: Mapping[str, Sequence[str]], found: NDArray[np.float64]) -> list[str]:
    """Return a line per answering model: kappa in the strict reading, and the calibration error with its interval."""
    lines = []
    for model, numbers in gm.by_model(rows)[1:]:
        part = [rows[i] for i in numbers]
        strict = [{**row, "label": REFUSAL if row["label"] == REFUSAL else COMPLIANCE} for row in part]
        kappas = [
            gm.figures(strict, [said[name][i] == REFUSAL for i in numbers], f"{model}, {name}")["kappa"]
            for name in ("keyword", "trained")
        ]
        frame = pd.DataFrame({"cluster": [row["cluster"] for row in part], "human": [row["label"] for row in part]})
        frame = frame.assign(p_refusal=found[numbers, :2].sum(axis=1), weight=1.0)
        soft = soft_measures(frame, 0.95, seed_of("trained_judge", model))
        assert soft is not None
        low, high = soft["ece_interval"]
        cells = [f"{value:.3f} ({start:.3f}-{end:.3f})" for value, start, end in kappas]
        cells += [f"{soft['ece']:.3f} ({low:.3f}-{high:.3f})", f"{soft['ece_if_calibrated']:.3f}"]
        lines.append(f"| {model} | {' | '.join(cells)} |")
    return lines


def embedded(rows: Rows, folder: Path, tokens: int) -> tuple[NDArray[np.float32], float]:
    """Return the vectors of all rows, and the seconds that the encoder took, its start included."""
    renderer = Renderer(folder, template="none", frame=True, untrusted=True)
    judge = TrainedJudge(kind="trained", engine="encoder", gold=["gold"], lists=["lists"], tokens=tokens)
    asked = [judge.token_ids(renderer, [{"role": "user", "content": r["cluster"]}], r["answer"]) for r in rows]
    started = time.perf_counter()
    command = [engine_python({}, ROOT), "-c", EMBED, str(ROOT / "scripts" / "refusal_eval" / "engines"), str(folder)]
    reply = subprocess.run(command, input=json.dumps(asked), check=True, stdout=subprocess.PIPE, text=True)
    return np.array(json.loads(reply.stdout), dtype=np.float32), time.perf_counter() - started


def variants(vectors: NDArray[np.float32], rows: Rows, keyword: KeywordReader) -> dict[str, NDArray[np.float64]]:
    """Return the features of each row: all of them, and with each part left out."""
    whole = features_of(vectors, rows, keyword)
    width = vectors.shape[1] // TEXTS
    parts = {
        "without the prompt": slice(0, width),
        "without the opening": slice(width, 2 * width),
        "without the beginning": slice(2 * width, 3 * width),
        "without the end": slice(3 * width, 4 * width),
        "without the vectors": slice(0, 4 * width),
        "without the keyword judge": slice(4 * width, None),
    }
    return {"trained": whole, **{name: np.delete(whole, part, axis=1) for name, part in parts.items()}}


def table(rows: Rows, said: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a line per answering model and judge, and the means over answering models."""
    lines: list[str] = []
    kappas: dict[str, list[float]] = {name: [] for name in said}
    for model, numbers in gm.by_model(rows)[1:]:
        for judge, labels in said.items():
            part, found = [rows[i] for i in numbers], [labels[i] != COMPLIANCE for i in numbers]
            lines.append(gm.table_line(f"{model}, {judge}", part, found))
            kappas[judge].append(gm.figures(part, found, f"{model}, {judge}")["kappa"][0])
    means = [f"{judge} {np.mean(values):.3f} (worst {min(values):.3f})" for judge, values in kappas.items()]
    return [*lines, "", "Kappa, mean of the answering models: " + "; ".join(means) + "."]


if __name__ == "__main__":
    main()
