"""How long the figures of a large study take, and how much memory.

    nice .venv/workflow/bin/python benchmarks/figures_speed.py

Writes made-up scores, estimates and verdicts of 20 models on 10 splits, one million answers with five to a prompt, and
draws the kinds of figures that read most. Prints seconds by figure and of the processor alone, and peak memory.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests" / "unit")]

import make_figure  # noqa: E402
from figure_checks import estimate, score  # type: ignore[import-not-found] # noqa: E402

from refusal_eval.plots.refusal_kinds_figure import KINDS  # noqa: E402

K = 5


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=20)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--answers", type=int, default=1_000_000)
    options = parser.parse_args(arguments)
    models = [f"model_{i:02d}" for i in range(options.models)]
    splits = [f"split_{i:02d}" for i in range(options.splits)]
    with tempfile.TemporaryDirectory() as folder:
        files = made(models, splits, options.answers // (len(models) * len(splits) * K), Path(folder))
        print(f"{len(models)} models, {len(splits)} splits, {options.answers:,} answers")
        started, at_start = time.perf_counter(), time.process_time()
        for one in asked(models, splits):
            before, at_before = time.perf_counter(), time.process_time()
            make_figure.main(one, files, Path(folder, "figures"))
            reported(one["figure"]["kind"], before, at_before)
        reported("together", started, at_start)
    print(f"peak memory    {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:6.2f} GB")


def reported(what: str, since: float, processor_since: float) -> None:
    """Print how long something took."""
    took, alone = time.perf_counter() - since, time.process_time() - processor_since
    print(f"{what:14} {took:6.1f} s, processor {alone:.1f} s", flush=True)


def asked(models: Sequence[str], splits: Sequence[str]) -> list[dict[str, Any]]:
    """Return one figure of each kind that reads answers, verdicts or estimates, as the rule's params."""
    few = ("categories", "tau_sweep")
    kinds = ("heatmap", "histograms", "refusal_kinds", *few)
    study: dict[str, Any] = {"labels": {}, "scoring": {"tau": 1.0, "band": 0.1}, "splits": []}
    study |= {"paper": {"page": 17.5, "column": 8.5}}
    shown: dict[str, Any] = {"judges": ["rules"], "models": list(models)}
    return [
        study
        | {
            "figure": {"name": kind, "kind": kind},
            "shown": shown | {"splits": list(splits[: 3 if kind in few else None])},
        }
        for kind in kinds
    ]


def made(models: Sequence[str], splits: Sequence[str], prompts: int, folder: Path) -> dict[str, list[str]]:
    """Write the files of a study and return where they lie, by noun."""
    rng = random.Random(1)
    paths: dict[str, list[str]] = {noun: [] for noun in ("scores", "rows", "verdicts", "estimates")}
    for model in models:
        found = []
        for split in splits:
            stem = folder / "rules" / model / split
            stem.parent.mkdir(parents=True, exist_ok=True)
            one = json.dumps(score(model, split, rng.random(), n=prompts))
            paths["scores"].append(write(stem.with_suffix(".json"), one))
            numbers = "".join(f"{i:016x},0,{rng.choice((-1.0, -0.2, 0.6, 1.0))}\n" for i in range(prompts))
            paths["rows"].append(write(stem.with_suffix(".csv"), f"prompt_id,turn,c\n{numbers}"))
            lines = "".join(verdict(rng) for _ in range(prompts * K))
            paths["verdicts"].append(write(stem.with_suffix(".jsonl"), lines))
            names = {"model": model, "split": split}
            for category in "abcdefgh":
                found += [estimate("refusal_rate", 0.5, **names, reading="broad", category=category)]
            found += [estimate("c_mean", 0.5, **names, parameter=tau) for tau in (0.1, 1.0, 4.0, "inf")]
        paths["estimates"].append(write(folder / f"{model}.json", json.dumps({"estimates": found})))
    return paths


def verdict(rng: random.Random) -> str:
    """Return a line of a verdict file, as long as a reasoned judge's."""
    label = rng.choice(("refusal", "partial", "compliance"))
    row: dict[str, Any] = {"flags": [], "key": "0" * 64, "kind": rng.choice(KINDS), "label": label, "p_refusal": None}
    return json.dumps(row | {"prompt_id": "0" * 16, "raw": {"analysis": "x" * 200}, "sample": 0, "turn": 0}) + "\n"


def write(path: Path, text: str) -> str:
    """Write a text and return its path."""
    path.write_text(text, encoding="utf-8")
    return str(path)


if __name__ == "__main__":
    main()
