"""How well the judge that learns agrees with people on sources of gold that it never saw, beside the keyword judge.

It is fitted on all gold in reach, and each answer is judged by three fits that had not seen its like: without its
prompt, without its prompt and its answering model, and without its whole source. `--encoder` also measures sentence
embeddings, alone on XSTest (as `trained-english` is fitted) and beside the words. `--write` writes the page in
measured/judges.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
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
from refusal_eval.core.states import COMPLIANCE, LEFT_OUT, PARTIAL, SOURCE_OUT, UNSEEN
from refusal_eval.judges.learning_judge import GoldSet
from refusal_eval.judges.trained.features import Feature
from refusal_eval.judges.trained.fitted_file import load
from refusal_eval.judges.trained.model import Examples, predict
from refusal_eval.judges.trained.unseen import source_models
from refusal_eval.judges.trained_judge import TrainedJudge
from refusal_eval.report.paper.table_notes import LEFT_OUT_TEXTS
from refusal_eval.stats.agreement.soft import soft_measures
from refusal_eval.stats.estimates.intervals import seed_of
from refusal_eval.study.engine_environment import engine_python

Rows = Sequence[Mapping[str, Any]]
Said = dict[
    str, NDArray[np.float64]
]  # by what the fit left out: p of refusal or partial for each row, nan where unknown
EMBED = """
import json, sys
sys.path.insert(0, sys.argv[1])
from classifier_server import ClassifierModel
model = ClassifierModel(sys.argv[2], "cpu", "float32", "mean", False)
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
    parser.add_argument("--encoder", type=Path, help="model folder of an encoder with mean pooling")
    parser.add_argument(
        "--most", type=int, default=None, help="answers that the encoder reads of each source but XSTest"
    )
    parser.add_argument("--write", action="store_true", help="write benchmarks/measured/judges/trained-DATE.md")
    arguments = parser.parse_args()
    path = gm.dated("trained") if arguments.write else None
    sources = gm.by_source(gm.gold_of(arguments.gold))
    sources[gm.MADE_UP] = [{**row, "cluster": row["prompt"], "source": gm.MADE_UP} for row in made_up_rows()]
    rows = [
        {**row, "id": str(number), "messages": [{"role": "user", "content": row["cluster"]}]}
        for number, row in enumerate(row for own in sources.values() for row in own)
        if row["answer"].strip()
    ]
    keyword = gm.keyword_judge()
    read = np.array([keyword.judge([], row["answer"]).label != COMPLIANCE for row in rows], dtype=float)
    words, seconds = unseen(rows, ["words", "reading"])
    lines = [*HEAD, *source_lines(rows, read, words), "", *mean_line(rows, read, words), ""]
    lines += speed_lines(rows)
    if arguments.encoder is not None:
        lines += encoder_lines(rows, read, arguments.encoder, arguments.most)
    lines += ["", f"All fits together took {seconds:.0f} s on one core."]
    text = "\n".join(lines) + "\n"
    print(text)
    if path is not None:
        write_text(path, text)


HEAD = [
    "# The judge that learns, measured on sources that it never saw",
    "",
    "`words` is a logistic regression over n-grams of the answer's words and characters and the reading of the",
    "keyword lists, fitted on all sources below. *Out of fold*: by fits without the answer's prompt. *Model out*:",
    "without its prompt and its answering model. *Source out*: by a fit to the other sources alone, which is what it",
    "is worth on kinds of prompts that it never saw. Kappa of the broad reading (partial refusal is refusal), p >= .5;",
    "in brackets 95 % intervals, bootstrap over prompts; the difference is paired. chatgpt-refusals stands apart: its",
    "partial refusals, another convention, are neither learned nor counted. No person labelled the made-up answers.",
    "The keyword lists were chosen on all of these sources, the strengths of the regression with each source left out",
    "in turn.",
    "",
    "| source | n | keyword | out of fold | model out | source out | source out - keyword | calibration error |",
    "| --- | --- | --- | --- | --- | --- | --- | --- |",
]


def counted(rows: Rows, source: str) -> list[int]:
    """Return the numbers of the rows of a source that count."""
    apart = source in gm.APART
    return [i for i, row in enumerate(rows) if row["source"] == source and not (apart and row["label"] == PARTIAL)]


def names_of(rows: Rows) -> list[str]:
    """Return the sources, those that stand apart last."""
    names = list(dict.fromkeys(row["source"] for row in rows))
    return sorted(names, key=lambda name: (name in gm.APART, name == gm.MADE_UP))


def source_lines(rows: Rows, keyword: NDArray[np.float64], said: Said) -> list[str]:
    """Return a line of the table per source."""
    lines = []
    for name in names_of(rows):
        numbers = counted(rows, name)
        part = [rows[i] for i in numbers]
        cells = [interval_text(gm.figures(part, (keyword[numbers] >= 0.5).tolist(), name)["kappa"])]
        cells += [
            interval_text(gm.figures(part, (said[how][numbers] >= 0.5).tolist(), name)["kappa"]) for how in LEFT_OUT
        ]
        cells.append(difference_text(part, said[SOURCE_OUT][numbers] >= 0.5, keyword[numbers] >= 0.5, name))
        frame = pd.DataFrame({"cluster": [row["cluster"] for row in part], "human": [row["label"] for row in part]})
        frame = frame.assign(p_refusal=said[SOURCE_OUT][numbers], weight=1.0)
        soft = soft_measures(frame, 0.95, seed_of("trained_judge", name))
        assert soft is not None
        cells.append(interval_text((soft["ece"], *soft["ece_interval"])))
        lines.append(f"| {name} | {len(part)} | {' | '.join(cells)} |")
    return lines


def mean_line(rows: Rows, keyword: NDArray[np.float64], said: Said) -> list[str]:
    """Return the mean kappa over the sources that people labelled by one convention, as a sentence."""
    names = [name for name in names_of(rows) if name not in (*gm.APART, gm.MADE_UP)]
    means = {}
    for judge, p in {"keyword": keyword, **{f"words, {LEFT_OUT_TEXTS[how]}": said[how] for how in LEFT_OUT}}.items():
        kappas = []
        for name in names:
            numbers = counted(rows, name)
            part = [rows[i] for i in numbers]
            kappas.append(gm.figures(part, (p[numbers] >= 0.5).tolist(), name)["kappa"][0])
        means[judge] = np.mean(kappas)
    shown = "; ".join(f"{judge} {mean:.3f}" for judge, mean in means.items())
    return [f"Kappa, mean of {', '.join(names)}: {shown}."]


def interval_text(values: Sequence[float]) -> str:
    """Return a value with its interval."""
    value, low, high = values
    return f"{value:.3f} ({low:.3f} to {high:.3f})"


def difference_text(rows: Rows, one: NDArray[np.bool_], other: NDArray[np.bool_], name: str) -> str:
    """Return the difference of two kappas on the same answers, with the interval of a paired bootstrap over prompts."""
    prompts = sorted({row["cluster"] for row in rows})
    weights = np.vstack([np.ones(len(prompts)), gm.resampled(len(prompts), name)])
    kappas = [gm.figures_of(weights @ gm.counts_of(rows, said.tolist(), prompts))[0] for said in (one, other)]
    difference = kappas[0] - kappas[1]
    low, high = np.nanquantile(difference[1:], [0.025, 0.975])
    return f"{difference[0]:+.3f} ({low:+.3f} to {high:+.3f})"


def gold_sets(rows: Rows) -> list[GoldSet]:
    """Return the rows as gold of each data set: latent jailbreak is one, whatever the language of its answers."""
    sets: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        sets.setdefault(row["source"].split(",")[0], []).append(row)
    return [GoldSet(slug(name), own, name) for name, own in sets.items()]


def slug(name: str) -> str:
    """Return a name of gold as entries have it."""
    return name.lower().replace(" ", "-")


def judge_of(features: list[Feature], golds: Sequence[str]) -> TrainedJudge:
    """Return a judge that learns from this gold, from clear cases alone of what stands apart."""
    return TrainedJudge(
        kind="trained",
        features=features,
        engine="encoder" if "vectors" in features else None,
        gold=[slug(gold) for gold in golds],
        clear_only=[slug(gold) for gold in golds if gold in gm.APART],
        lists=[str(path) for path in gm.LISTS] if "reading" in features else [],
    )


def unseen(
    rows: Rows, features: list[Feature], vectors: Mapping[str, NDArray[np.float32]] | None = None
) -> tuple[Said, float]:
    """Return what fits to all sources say of each row whose like they had not seen, and the seconds of all fits."""
    sets = gold_sets(rows)
    judge = judge_of(features, [str(one.label) for one in sets])
    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        lines = judge.fit_on(sets, vectors or {}, str(Path(folder, "model.json")))
    found = {how: np.full(len(rows), np.nan) for how in LEFT_OUT}
    places = {row["id"]: number for number, row in enumerate(rows)}
    for line in lines:
        by = line["raw"][UNSEEN]
        for how in LEFT_OUT:
            one = by.get(how) or by[LEFT_OUT[0]]
            found[how][places[line["prompt_id"]]] = one["p_refusal"]
    return found, time.process_time() - started


def speed_lines(rows: Rows) -> list[str]:
    """Return how many answers a second are judged on one core, with and without what the keyword lists take."""
    judge = judge_of(["words", "reading"], ["XSTest"])
    keyword, sample = gm.keyword_judge(), rows[::3]
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "model.json"))
        judge.fit_on(gold_sets([row for row in rows if row["source"] == "XSTest"]), {}, path)
        asked = [(row["messages"], row["answer"]) for row in sample]
        judge.judge_fitted(asked[:50], path, False)
        whole, lists = [], []
        for _ in range(5):
            started = time.process_time()
            judge.judge_fitted(asked, path, False)
            whole.append(time.process_time() - started)
            started = time.process_time()
            for messages, answer in asked:
                keyword.judge(messages, answer)
            lists.append(time.process_time() - started)
    both, reading = np.median(whole), np.median(lists)
    return [
        f"On one core `words` with `reading` judges {len(asked) / both:.0f} answers a second; without the time of the "
        f"keyword reading itself, {len(asked) / (both - reading):.0f} (median of 5 runs over {len(asked)} answers, "
        f"{np.mean([len(answer) for _, answer in asked]):.0f} characters in the mean)."
    ]


def encoder_lines(rows: Rows, keyword: NDArray[np.float64], folder: Path, most: int | None) -> list[str]:
    """Return the lines on sentence embeddings: fitted on XSTest alone, on all sources, and beside the words."""
    chosen = [
        i for name in names_of(rows) for i in spread([i for i, r in enumerate(rows) if r["source"] == name], most)
    ]
    rows, keyword = [rows[i] for i in chosen], keyword[chosen]
    vectors, seconds = embedded(rows, folder)
    lines = ["", "## With sentence embeddings", ""]
    lines += [
        f"On {len(rows)} of these answers. Kappa, source out, and its difference from the keyword judge there:",
        "",
    ]
    lines += [
        "| features, fitted on | " + " | ".join(names_of(rows)) + " |",
        "| --- |" + " --- |" * len(names_of(rows)),
    ]
    alone = judge_of(["vectors", "prompt", "reading"], ["XSTest"])
    with tempfile.TemporaryDirectory() as work:
        path = str(Path(work, "model.json"))
        alone.fit_on(gold_sets([row for row in rows if row["source"] == "XSTest"]), vectors, path)
        model, reader = load(path).model, alone.feature_reader()
    seen = [reader.seen(row["messages"], row["answer"], vectors[row["id"]]) for row in rows]
    trained = predict(model, seen)[:, :2].sum(axis=1)
    found = {"vectors, prompt, reading: XSTest alone (`trained-english`)": trained}
    kinds: list[list[Feature]] = [["vectors", "prompt", "reading"], ["words", "vectors", "prompt", "reading"]]
    kinds.append(["words", "reading"])
    for features in kinds:
        found[f"{', '.join(features)}: all sources"] = source_out(rows, features, vectors)
    for label, p_refusal in found.items():
        cells = []
        for name in names_of(rows):
            numbers = counted(rows, name)
            part, p = [rows[i] for i in numbers], p_refusal[numbers] >= 0.5
            kappa = gm.figures(part, p.tolist(), name)["kappa"][0]
            own = "fitted on it" if "alone" in label and name == "XSTest" else ""
            cells.append(own or f"{kappa:.3f}, {difference_text(part, p, keyword[numbers] >= 0.5, name)}")
        lines.append(f"| {label} | {' | '.join(cells)} |")
    speed = f"The encoder read {len(rows)} answers in {seconds:.0f} s on {len(os.sched_getaffinity(0))} cores."
    return [*lines, "", speed]


def source_out(
    rows: Rows, features: Sequence[Feature], vectors: Mapping[str, NDArray[np.float32]]
) -> NDArray[np.float64]:
    """Return the probability of refusal or partial refusal of each row by a fit to the other sources."""
    reader = judge_of([*features], ["XSTest"]).feature_reader()
    with_vectors = vectors if "vectors" in features else {}
    seen = [reader.seen(row["messages"], row["answer"], with_vectors.get(row["id"])) for row in rows]
    own = [{**row, "seen": one, "source": row["source"].split(",")[0]} for row, one in zip(rows, seen, strict=True)]
    models = source_models(
        Examples.of(row for row in own if not (row["source"] in gm.APART and row["label"] == PARTIAL))
    )
    found = np.zeros(len(rows))
    for source, model in models.items():
        numbers = [i for i, row in enumerate(own) if row["source"] == source]
        found[numbers] = predict(model, [seen[i] for i in numbers])[:, :2].sum(axis=1)
    return found


def spread(numbers: Sequence[int], most: int | None) -> list[int]:
    """Return at most so many of these numbers, evenly spread."""
    if most is None or len(numbers) <= most:
        return list(numbers)
    return [numbers[i] for i in np.linspace(0, len(numbers) - 1, most).round().astype(int)]


def embedded(rows: Rows, folder: Path) -> tuple[dict[str, NDArray[np.float32]], float]:
    """Return the vectors of all rows by id, and the seconds that the encoder took, its start included."""
    renderer = Renderer(folder, template="none", frame=True, untrusted=True)
    judge = judge_of(["vectors", "prompt", "reading"], ["XSTest"])
    asked = [judge.token_ids(renderer, row["messages"], row["answer"]) for row in rows]
    started = time.perf_counter()
    command = [engine_python({}, ROOT), "-c", EMBED, str(ROOT / "scripts" / "refusal_eval" / "engines"), str(folder)]
    reply = subprocess.run(command, input=json.dumps(asked), check=True, stdout=subprocess.PIPE, text=True)
    vectors = np.array(json.loads(reply.stdout), dtype=np.float32)
    ids = (row["id"] for row in rows)
    return dict(zip(ids, vectors, strict=True)), time.perf_counter() - started


if __name__ == "__main__":
    main()
