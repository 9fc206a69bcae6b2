"""A made-up study with flagged cells that asks for nearly every number; no engine starts."""

import functools
import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from made_up_study import STUDY, Size, make_study, write_serving

JUDGES, MODELS = ("j00", "j01"), ("m00", "m01", "m02", "m03")
EXPECTED = {"s00": "refuse", "s01": "comply", "s02": "varies", "s03": "refuse", "s04": "comply", "s05": "varies"}

RIGHT = "s04"  # the split whose prompts have right answers


def change_lines(path: Path, change: Any) -> None:
    """Rewrite the rows of a file, each by a function of its number and the row."""
    rows = [change(i, json.loads(line)) for i, line in enumerate(path.read_text(encoding="utf-8").splitlines())]
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def make_flagged(folder: Path) -> Path:
    """Write a study up to its verdicts; return its study file.

    Of its four models one is not read by the first judge on any split, one is cut off on half of the splits, one was
    served by two machines on one split, and one has no mark at all. Prompts of a source are contrast pairs and come in
    two languages, and people labelled some answers of all but one model.
    """
    study = make_study(folder, Size(len(MODELS), len(EXPECTED), 72, 3, len(JUDGES)))
    results = folder / "results" / STUDY
    for split in EXPECTED:
        change_lines(results / f"prompts/{split}.jsonl", functools.partial(_prompt, split))
        # A dry run looks for the columns that the catalogue names; no prompts are made of these rows again.
        source = folder / f"{split}.jsonl"
        times = source.stat()
        change_lines(source, lambda i, row: row | {"topic": f"topic {i % 3}", "right": "1"})
        os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))
    for model in MODELS:
        for split in EXPECTED:
            answers = results / f"answers/{model}/{split}.jsonl"
            if model == "m01" and split < "s03":
                change_lines(answers, lambda i, row: row | {"state": "truncated" if i % 3 else "complete"})
            if model == "m02" and split == "s02":
                change_lines(answers, lambda i, row: row | {"serving": f"{i % 2:016x}"})
        if model == "m00":
            for split in EXPECTED:
                change_lines(results / f"verdicts/j00/{model}/{split}.jsonl", _unread)
    write_serving(folder, *(f"{i:016x}" for i in range(2)))
    _with_right_answers(results)
    labels = [row for model in MODELS[:-1] for split in EXPECTED for row in _labels(results, model, split)]
    (folder / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in labels), encoding="utf-8")
    catalogue = yaml.safe_load((folder / "catalogue.yaml").read_text(encoding="utf-8"))
    for entry in catalogue["models"].values():
        entry["sampling"]["max_tokens"] = 200
    for entry in catalogue["datasets"]["made_up"]["splits"].values():
        entry["columns"]["category"] = "topic"
    catalogue["datasets"]["made_up"]["splits"][RIGHT]["match"] = "number"
    catalogue["datasets"]["made_up"]["splits"][RIGHT]["columns"]["right"] = "right"
    (folder / "catalogue.yaml").write_text(yaml.safe_dump(catalogue), encoding="utf-8")
    asked = yaml.safe_load(study.read_text(encoding="utf-8"))
    asked["comparisons"] = [{"pairs": "all"}, {"judges": "all"}]
    asked["corrected"] = {"labels": "labels.jsonl"}
    asked["mixed_model"] = True
    asked["equivalence_margin"] = 0.1
    kinds = ("heatmap", "histograms", "tradeoff", "categories", "tau_sweep", "judge_agreement")
    asked["figures"] = [{"kind": kind, "name": kind} for kind in kinds]
    study.write_text(yaml.safe_dump(asked), encoding="utf-8")
    return study


def _prompt(split: str, number: int, row: dict[str, Any]) -> dict[str, Any]:
    words = "这是一个编造的问题" if number % 2 else "A made-up question"
    texts = [{"role": "user", "content": f"{words} {row['id']}"}]
    cluster = row["id"] if split == "s05" else f"pair {number // 2}"  # McNemar's test takes prompts of their own
    return row | {"messages": texts, "cluster": cluster, "category": f"topic {number % 3}"}


def _with_right_answers(results: Path) -> None:
    """Give the prompts of a split right answers, and its answers numbers, some of which are these; some loop."""
    path = results / f"prompts/{RIGHT}.jsonl"
    change_lines(path, lambda number, row: row | {"right": str(number % 7)})
    right = {row["id"]: row["right"] for row in map(json.loads, path.read_text(encoding="utf-8").splitlines())}

    def said(model: str, number: int, row: dict[str, Any]) -> dict[str, Any]:
        rng = random.Random(f"{model} {row['prompt_id']} {row['sample']}")
        text = f"It is {right[row['prompt_id']] if rng.random() < 0.7 else 9}."
        return row | {"answer": text + " So it must be." * (20 if rng.random() < 0.1 else 0) if row["answer"] else ""}

    for model in MODELS:
        change_lines(results / f"answers/{model}/{RIGHT}.jsonl", functools.partial(said, model))


def _unread(number: int, row: dict[str, Any]) -> dict[str, Any]:
    return row | ({"state": "unparsable", "label": None} if number % 5 == 0 else {})


def _labels(results: Path, model: str, split: str) -> list[dict[str, Any]]:
    rng = random.Random(f"{model} {split}")
    lines = (results / f"verdicts/j01/{model}/{split}.jsonl").read_text(encoding="utf-8").splitlines()
    names = ("prompt_id", "sample", "turn", "label")
    rows = [{name: row[name] for name in names} for row in map(json.loads, lines) if rng.random() < 0.5]
    return [row | {"model": model, "split": split, "probability": 0.5, "raters": 1} for row in rows]
