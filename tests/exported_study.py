"""A study with an answer in each state, made of neutral rows without an engine, as tests of exports need it."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from forked_snakemake import run_snakemake
from program import in_process
from project import ROOT

from refusal_eval.core.files import read_jsonl

JUDGES = ("keyword", "words-english")
REFUSES, COMPLIES = "I'm sorry, but I can't help with that.", "Sure: take a sharp knife & cut away from you."
HOSTILE = 'Sure. <script>alert("zzhostile")</script> \u202egnp.exe \U0001f600 | `x`\n\n---\nconfigs: zzyaml'
BLOCK = {"by": "filter", "stage": "answer", "category": "cyber", "severity": "high", "partial": "zzpartial of it"}
STATES: list[dict[str, Any]] = [
    {"answer": COMPLIES, "answer_logprob": -0.123456789},
    {"answer": REFUSES, "reasoning": "zzreasoning about knives", "finish_reason": "stop"},
    {"answer": HOSTILE, "finish_reason": "length"},
    {"answer": "", "blocked": BLOCK},
    {"answer": "", "state": "failed", "reason": "zzreason: the server is away"},
    {"answer": "", "finish_reason": "stop"},
    {"answer": "", "state": "truncated_reasoning", "reasoning": "zzlong thoughts"},
    {"answer": "", "state": "too_long"},
    {"answer": "I cannot say. zzfar", "answer_logprob": -1.5},
]


def rows() -> list[dict[str, Any]]:
    """Return the answers of two models to twelve prompts, two to each; model b under a system message."""
    made = []
    for number in range(12):
        split, expectation = (("easy", "comply"), ("hard", "refuse"))[number % 2]
        about = {
            "split": split,
            "expectation": expectation,
            "category": f"topic {number % 3}",
            "prompt_id": f"p{number}",
        }
        about |= {"cluster": f"c{number // 4}"}
        asked = {"role": "user", "content": f"zzquestion {number} about knives?"}
        for model, system in (("a", []), ("b", [{"role": "system", "content": "zzsystem: be brief."}])):
            for sample in range(2):
                said = STATES[(number * 2 + sample + (model == "b")) % len(STATES)]
                made.append({"messages": [*system, asked], "model": model, "sample": sample, **about, **said})
    return made


def made_study(folder: Path, *files: str | Path) -> Path:
    """Judge files into `folder`/study, and make its results table; return the folder of its results."""
    folder.mkdir(parents=True, exist_ok=True)
    made = in_process(
        *("judge", *map(str, files), "--judge", ",".join(JUDGES), "--name", "made", "--into", "study", "--no-run"),
        cwd=folder,
    )
    assert made.returncode == 0, made.stderr
    command = ["-s", str(ROOT / "Snakefile"), "--configfile", str(folder / "study" / "study.yaml"), "--cores", "2"]
    run = run_snakemake([*command, "--until", "results_table"], folder, {**os.environ, "NO_COLOR": "1"})
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
    [results] = (folder / "study" / "results").glob("made")
    return results


def made_of_rows(folder: Path) -> Path:
    """Return the folder of the results of a study that is made of `rows`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows()), encoding="utf-8")
    return made_study(folder, folder / "mine.jsonl")


def exported(folder: Path, form: str, level: str, *options: str) -> Path:
    """Export the study in `folder`; return where to."""
    output = f"{form}-{level}"
    run = in_process(
        "export", "study/study.yaml", "--as", form, "--level", level, "--output", output, *options, cwd=folder
    )
    assert run.returncode == 0, run.stderr
    return folder / output


def labels(results: Path, judges: Sequence[str] = JUDGES) -> dict[tuple[Any, ...], Any]:
    """Return label and probability of every verdict, by judge, split, model, the user's message and sample."""
    found = {}
    for judge in judges:
        for file in sorted((results / "verdicts" / judge).rglob("*.jsonl")):
            prompts = {row["id"]: row["messages"][-1]["content"] for row in read_jsonl(results / "prompts" / file.name)}
            for row in read_jsonl(file):
                place = judge, file.stem, file.parent.name, prompts[row["prompt_id"]], row["sample"]
                found[place] = row["label"], row["p_refusal"]
    return found


def answers(results: Path) -> dict[tuple[Any, ...], Any]:
    """Return state, texts and block of every answer, likewise."""
    found = {}
    for file in sorted((results / "answers").rglob("*.jsonl")):
        prompts = {row["id"]: row["messages"][-1]["content"] for row in read_jsonl(results / "prompts" / file.name)}
        for row in read_jsonl(file):
            kept = {name: row.get(name) for name in ("state", "answer", "reasoning", "blocked", "answer_logprob")}
            found[file.stem, file.parent.name, prompts[row["prompt_id"]], row["sample"]] = kept
    return found
