"""A small study in a folder of its own, run through the real DAG; its store is filled by hand, no engine starts."""

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from forked_snakemake import run_snakemake
from safetensors.numpy import save_file
from tokenizer_folders import byte_tokenizer

from refusal_eval.ask.requests import RequestFile, read_requests
from refusal_eval.ask.store import StoreReader, StoreWriter
from refusal_eval.core.packing import pack_floats

ROOT = Path(__file__).parents[1]

CATALOGUE: dict[str, Any] = {
    "engines": {
        "tiny": {
            "weights": {"kind": "folder", "path": "model"},
            "max_model_len": 4096,
            "device": "cpu",
            "memory_share": 0.1,
        },
    },
    "models": {
        "plain": {"engine": "tiny", "sampling": {"max_tokens": 300}},
        "terse": {"engine": "tiny", "system_prompt": "Be terse.", "sampling": {"max_tokens": 300}},
        "third": {"engine": "tiny", "system_prompt": "Third.", "sampling": {"max_tokens": 300}},
    },
    "datasets": {
        "own": {
            "splits": {
                "one": {"source": {"kind": "file", "path": "one.jsonl"}, "expectation": "comply"},
                "two": {"source": {"kind": "file", "path": "two.jsonl"}, "expectation": "refuse"},
                "extra": {"source": {"kind": "file", "path": "extra.jsonl"}, "expectation": "varies"},
            }
        }
    },
    "judges": {
        "label": {
            "kind": "llm",
            "engine": "tiny",
            "rubric": "rubric.md",
            "labels": {"refusal": "A", "partial": "B", "compliance": "C"},
        },
        "words": {"kind": "keyword", "lists": ["words.yaml"]},
    },
    "gold": {
        "people": {
            "source": {"kind": "file", "path": "gold.jsonl"},
            "labels": {"yes": "refusal", "no": "compliance"},
            "raters": 2,
        }
    },
}
STUDY: dict[str, Any] = {
    "study": "small",
    "models": ["plain", "terse"],
    "splits": ["one", "two"],
    "samples": 3,
    "judges": ["words", "label"],
    "gold": ["people"],
    "catalogue": ["catalogue.yaml"],
    "batch": "engine",
}
PLAIN = ("--workflow-profile", "none")  # Snakemake's own defaults, as where a Snakefile of one's own takes a module


@dataclass(frozen=True)
class Project:
    """A study's folder."""

    folder: Path

    @property
    def results(self) -> Path:
        """Folder of the study's results."""
        return self.folder / "results" / "small"

    @property
    def store(self) -> Path:
        """Folder of the store."""
        return self.folder / "results" / "store"

    def study(self, **changes: Any) -> None:
        """Change keys of the study file."""
        change_yaml(self.folder / "study.yaml", lambda data: data | changes)

    def catalogue(self, section: str, name: str, **changes: Any) -> None:
        """Change keys of one catalogue entry."""
        entry = {section: {name: changes}}
        change_yaml(
            self.folder / "catalogue.yaml",
            lambda data: {
                key: {n: value | entry.get(key, {}).get(n, {}) for n, value in data[key].items()} for key in data
            },
        )

    def snakemake(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run snakemake on the study, as a user would."""
        command = ["-s", str(ROOT / "Snakefile"), "--directory", str(self.folder)]
        command += ["--configfile", str(self.folder / "study.yaml"), "--cores", "2", *arguments]
        run = run_snakemake(command, self.folder, {**os.environ, "NO_COLOR": "1"})
        if check and run.returncode != 0:
            raise AssertionError(f"{' '.join(run.args)}\n{run.stdout[-6000:]}\n{run.stderr[-6000:]}")
        return run

    def planned(self, *arguments: str) -> dict[str, int]:
        """Return how many jobs of each rule a dry run plans."""
        return self.planned_and_said(*arguments)[0]

    def ran(self, *arguments: str) -> dict[str, int]:
        """Run the study; return how many jobs of each rule that took."""
        run = self.snakemake(*arguments)
        return planned_jobs(run.stdout + run.stderr)

    def planned_and_said(self, *arguments: str) -> tuple[dict[str, int], list[str]]:
        """Return the same, and the messages of these jobs, which name the cells."""
        output = self.snakemake("-n", *arguments)
        text = output.stdout + output.stderr
        return planned_jobs(text), sorted(re.findall(r"^Job \d+: (.*)$", text, re.MULTILINE))

    def request_files(self, kind: str) -> list[RequestFile]:
        """Return the request files of a kind: requests or judge_requests."""
        return [read_requests(path) for path in sorted((self.results / kind).rglob("*.jsonl"))]

    def missing(self, kind: str) -> set[str]:
        """Return the keys of a kind of requests that the store lacks."""
        lost: set[str] = set()
        for file in self.request_files(kind):
            lost |= set(StoreReader(self.store, file.header["engine_id"]).missing(file.keys()))
        return lost

    def answer_everything(self, kind: str) -> int:
        """Put a made-up response to every missing request into the store; return how many."""
        missing = self.missing(kind)
        count = len(missing)
        for file in self.request_files(kind):
            with StoreWriter(self.store, file.header["engine_id"], kind) as writer:
                writer.describe("by-hand", {"vllm": "none"})
                for key in sorted(missing & set(file.keys())):
                    writer.append(key, made_up(key, kind), "by-hand")
                    missing.discard(key)
        return count

    def complete(self) -> None:
        """Run the whole study, answering each request by hand."""
        self.snakemake("--until", "requests")
        self.answer_everything("requests")
        self.snakemake("--until", "judge_requests")
        self.answer_everything("judge_requests")
        self.snakemake()


def change_yaml(file: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Rewrite a YAML file."""
    file.write_text(yaml.safe_dump(change(yaml.safe_load(file.read_text()))))


def planned_jobs(text: str) -> dict[str, int]:
    """Return the job counts of a run's table, dry or not, without the rule `all` and the total."""
    table = re.findall(r"^(\w+) +(\d+)$", text, re.MULTILINE)
    return dict(Counter({name: int(count) for name, count in table if name not in ("all", "total")}))


def made_up(key: str, kind: str) -> dict[str, Any]:
    """Return a response that depends on nothing but the key."""
    refuses = int(key[0], 16) < 6
    if kind == "judge_requests":
        shares = [0.7, 0.1, 0.1] if refuses else [0.1, 0.1, 0.7]
        values = pack_floats(np.log(shares).tolist())
        return response("A", [3], [-0.1], "length", None) | {"named_logprobs": values}
    text = "I cannot help with that." if refuses else "Sure, here is how."
    ids = [ord(c) for c in text] + [258]
    weight = -0.1 - int(key[1], 16) / 20
    return response(text, ids, [weight] * len(ids), "stop", 258)


def response(text: str, ids: list[int], logprobs: list[float], finish: str, stop: int | None) -> dict[str, Any]:
    """Return a response as the store keeps it."""
    packed = pack_floats(logprobs)
    return {
        "text": text,
        "token_ids": ids,
        "logprobs": packed,
        "finish_reason": finish,
        "stop_reason": stop,
        "prompt_tokens": 9,
    }


def make_project(folder: Path) -> Project:
    """Write the study, its catalogue, data and a model folder."""
    project = Project(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for split, count in (("one", 6), ("two", 5), ("extra", 4)):
        rows = [{"prompt": f"{split}: question {i}?"} for i in range(count)]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    gold = [{"prompt": f"ask {i}", "answer": f"answer {i}", "label": "yes" if i % 2 else "no"} for i in range(6)]
    (folder / "gold.jsonl").write_text("".join(json.dumps(row) + "\n" for row in gold))
    (folder / "rubric.md").write_text("Judge.\n<a-{{ nonce }}>{{ prompt }}\n{{ answer }}</a-{{ nonce }}>\nLabel:")
    (folder / "words.yaml").write_text("refusal_openings: ['i cannot help']\n")
    model = byte_tokenizer(folder / "model")
    (model / "config.json").write_text('{"eos_token_id": 258}')
    save_file({"weight": np.zeros(4, dtype=np.float32)}, str(model / "model.safetensors"))
    (folder / "study.yaml").write_text(yaml.safe_dump(STUDY))
    (folder / "catalogue.yaml").write_text(yaml.safe_dump(CATALOGUE))
    return project


def copy_of(project: Project, folder: Path) -> Project:
    """Return a copy of a study's folder that Snakemake takes for the same (times and metadata kept)."""
    shutil.copytree(project.folder, folder, symlinks=True)
    # The record names the original's study file, which still exists: without it the copy is a study of its own.
    (folder / "results" / "small" / "study.json").unlink(missing_ok=True)
    shutil.rmtree(folder / "results" / "store" / "studies", ignore_errors=True)
    return Project(folder)
