"""A small study of two hosted models, one of each dialect, on the stub provider."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from project import ROOT, Project, change_yaml, make_project
from stub_provider import StubProvider

from refusal_eval.core.files import read_jsonl
from refusal_eval.features.hosted.price import Price

SECRET = "sk-stub-secret-0123456789"
KEY_VARIABLE = "STUB_KEY"
MODELS = {"gpt": "openai", "claude": "anthropic"}
PROMPTS = 20  # of each split
# Of each dialect blocks of four kinds.
FOUR_KINDS = (
    "400 invalid_prompt",
    "Azure answer filtered",
    "OpenRouter 403 moderation",
    "Claude through a gateway",
    "refusal before any text",
    "refusal within the answer",
    "refusal, no details",
    "400 content filtering",
)
PRICE = Price.model_validate({"input": 2.5, "cached": 1.25, "output": 10, "date": "2026-11-01"})


def stub(log: Path | None = None, **options: Any) -> StubProvider:
    """Return the provider: a fifth of what it is asked is blocked, and some of it is refused."""
    usual = {"blocked": 0.2, "block_forms": FOUR_KINDS, "declared": 0.05, "refused": 0.2, "cached": 0.3}
    return StubProvider(log=log, **{"key": SECRET, "varies": True, **usual, **options})


def hosted_project(folder: Path, address: str, prompts: int = PROMPTS, **engine: Any) -> Project:
    """Write the study; nothing has run.

    Args:
        folder: of the study.
        address: of the provider.
        prompts: how many each split has.
        engine: fields of both engines.
    """
    project = make_project(folder)
    for split in ("one", "two"):
        rows = [{"prompt": f"{split}: question {i}, naïvely?"} for i in range(prompts)]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    shared = {
        "address": address,
        "key_variable": KEY_VARIABLE,
        "as_of": "2026-11-01",
        "price": PRICE.model_dump(mode="json"),
        **engine,
    }
    engines = {f"{kind}-stub": {"kind": kind, "served": f"{kind}-large", **shared} for kind in MODELS.values()}
    models = {
        name: {"engine": f"{kind}-stub", "system_prompt": "Be kind.", "sampling": {"max_tokens": 40}}
        for name, kind in MODELS.items()
    }
    added: Mapping[str, Any] = {"engines": engines, "models": models}
    change_yaml(folder / "catalogue.yaml", lambda data: data | {key: data[key] | added[key] for key in added})
    project.study(models=list(MODELS), judges=["words"], gold=[])
    return project


def answers(project: Project, model: str) -> list[dict[str, Any]]:
    """Return the rows of a model's answers, split by split."""
    return [
        row for split in ("one", "two") for row in read_jsonl(project.results / "answers" / model / f"{split}.jsonl")
    ]


def started(project: Project, *arguments: str) -> "subprocess.Popen[bytes]":
    """Start a run in a process group of its own, whose output is in the project's folder."""
    command = [sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile"), "--directory", str(project.folder)]
    command += ["--configfile", str(project.folder / "study.yaml"), "--cores", "2", *arguments]
    with open(project.folder / "run.log", "ab") as log:
        return subprocess.Popen(command, cwd=project.folder, stdout=log, stderr=log, start_new_session=True)


def wait_until(done: Callable[[], object], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end
        time.sleep(0.02)
