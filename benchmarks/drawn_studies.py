"""Figures and tables of made-up studies of several sizes, at the widths of each paper's format, for people to look at.

    .venv/workflow/bin/python benchmarks/drawn_studies.py --out FOLDER [--models 2 8 20] [--splits 3 9] [--paper ...]

Each study is made once, by the rules' own scripts; then its figures are drawn and its tables typeset for every format.
`FOLDER/index.html` has all figures at their natural size. Steered models, activations and battles are made-up rows.
"""

from __future__ import annotations

import argparse
import html
import json
import math
import random
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts")]

import make_figure  # noqa: E402
import pandas as pd  # noqa: E402
from made_up_study import STUDY  # noqa: E402
from realistic_study import MODELS, make_realistic  # noqa: E402
from rule_jobs import Job, planned, run  # noqa: E402

PAPERS = ("neurips", "icml", "acl", "nature")
DRAWN = ("figure", "judge_card_figure", "captions_preamble", "table")


def main() -> None:
    """Make the studies, draw and typeset them, and write the index."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, metavar="FOLDER")
    parser.add_argument("--models", type=int, nargs="+", default=[2, 8, 20])
    parser.add_argument("--splits", type=int, nargs="+", default=[3, 9])
    parser.add_argument("--paper", nargs="+", default=list(PAPERS))
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="RULE", help="rules to run again in a study made before"
    )
    options = parser.parse_args()
    out = Path(options.out).resolve()
    for models in options.models:
        for splits in options.splits:
            for _ in draw_study(out, models, splits, options.paper, options.only):
                pass
    (out / "index.html").write_text(index(out), encoding="utf-8")
    print(out / "index.html")


def draw_study(out: Path, models: int, splits: int, papers: Sequence[str], only: Sequence[str]) -> Iterator[Path]:
    """Make a study and yield a folder with its figures and tables for each format."""
    folder = out / f"study_{models}x{splits}"
    study = folder / "study.yaml"
    if not only:
        study = make_realistic(folder, models, splits)
        list(run(planned(study, folder, {}), folder, 2))
    for paper in papers:
        levels = [
            [job for job in level if job.rule in (only or DRAWN)] for level in planned(study, folder, {"paper": paper})
        ]
        list(run(levels, folder, 2))
        to = out / f"{models} models, {splits} splits" / paper
        shutil.rmtree(to, ignore_errors=True)
        results = folder / "results" / STUDY
        shutil.copytree(results / "figures", to / "figures")
        shutil.copytree(results / "tables", to / "tables")
        for heatmap in (job for level in levels for job in level if "/heatmap.svg" in job.outputs[0]):
            draw_made_up(heatmap, folder, to / "figures", models)
        yield to


def draw_made_up(heatmap: Job, folder: Path, to: Path, models: int) -> None:
    """Draw the kinds that the study has nothing for, from rows that are made up, or from the rates of its models."""
    asked = heatmap.seen.params.asked
    files = {noun: [str(folder / str(path)) for path in paths] for noun, paths in heatmap.seen.input.items()}
    shown = asked["shown"]
    steered = shown["models"][: min(models, 5)]
    curves = {"Refusal direction": dict(zip(steered, (0.0, -0.25, -0.5, -1.0, 0.5), strict=False))}
    if models > 5:
        control = [steered[0], *shown["models"][5:8]]
        curves["Random direction (control)"] = dict(zip(control, (0.0, -0.5, -1.0, 0.5), strict=False))
    make_figure.main(
        asked
        | {
            "figure": {"name": "dose_response", "kind": "dose_response"},
            "shown": shown | {"splits": shown["splits"][:3], "curves": curves},
        },
        files,
        to,
    )
    rows = to / "separation_rows.csv"
    _separation(min(models, 8)).to_csv(rows, index=False)
    separated = {f"m{number:02d}": MODELS[number] for number in range(min(models, 8))}
    make_figure.main(
        asked
        | {
            "figure": {"name": "separation", "kind": "separation", "separation": "far"},
            "shown": {**shown, "models": list(separated), "splits": []},
        },
        {"separation": [str(rows)]},
        to,
    )
    rows.unlink()
    battles = to / "battles_rows.json"
    battles.write_text(json.dumps({"estimates": list(_battles(shown["splits"][:2], shown["judges"][0]))}))
    make_figure.main(
        asked | {"figure": {"name": "battles", "kind": "battles"}, "shown": shown | {"splits": shown["splits"][:2]}},
        files | {"battles": [str(battles)]},
        to,
    )
    battles.unlink()


def _separation(models: int) -> pd.DataFrame:
    """Return indices of two groups by layer, which come apart in the middle layers."""
    rng, rows = random.Random("separation"), []
    for model in range(models):
        for layer in range(24):
            apart = 1 / (1 + math.exp((8 + model - layer) / 2)) * (0.9 - 0.04 * model)
            for index, value, null in (
                ("auc", 0.5 + apart / 2, 0.5),
                ("silhouette", 0.02 + 0.4 * apart, 0.01),
                ("davies_bouldin", 5 - 3.6 * apart, 5.2),
            ):  # fmt: skip
                value += rng.gauss(0, 0.01)
                wide = 0.03 * (1 if index != "davies_bouldin" else 8)
                ends = {"low": value - wide, "high": value + wide, "null": null}
                names = {"model": f"m{model:02d}", "index": index, "layer": layer, "value": value}
                rows.append(names | ends | {"n_positive": 60, "n_negative": 60})
    return pd.DataFrame(rows)


def _battles(splits: Sequence[str], judge: str) -> Iterator[Mapping[str, Any]]:
    """Yield how often answers of each class won, where people and where a language model chose."""
    rng = random.Random("battles")
    for split in splits:
        for name in ("refusal", "partial", "compliance", "ethical refusal", "technical refusal"):
            for estimand in ("battle_wins_paired", "battle_wins_llm"):
                value = rng.uniform(0.1, 0.6)
                ends = {"value": value, "low": value - 0.07, "high": value + 0.07, "level": 0.95}
                names = {"judge": judge, "model": None, "split": split, "estimand": estimand, "parameter": name}
                flags = ["few_clusters"] if name == "technical refusal" else []
                yield {**names, **ends, "n_prompts": 240, "n_clusters": 60, "flags": flags}


def index(out: Path) -> str:
    """Return a page with every figure at its natural size, and its caption."""
    parts = []
    for folder in sorted(out.glob("* models, * splits/*")):
        where = html.escape(str(folder.relative_to(out)))
        parts.append(f"<h2>{where}</h2>")
        for figure in sorted((folder / "figures").glob("*.svg")):
            caption = figure.with_suffix(".caption.md")
            words = html.escape(caption.read_text(encoding="utf-8") if caption.exists() else "")
            parts.append(
                f"<figure><img src='{where}/figures/{figure.name}'>"
                f"<figcaption>{figure.stem}: {words}</figcaption></figure>"
            )
    style = "figure{display:inline-block;margin:12px;vertical-align:top;max-width:700px}figcaption{font:12px serif}"
    return f"<!doctype html><meta charset='utf-8'><title>Drawn studies</title><style>{style}</style>{''.join(parts)}\n"


if __name__ == "__main__":
    main()
