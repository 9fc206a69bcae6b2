"""The studies that ship: each is valid, planned and dry-run from a fresh clone, and says in its head what it needs."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from refusal_eval.config.load_study import ConfigError, load_study
from refusal_eval.study.study import Study
from refusal_eval.tools.plan.study_terms import open_pins

ROOT = Path(__file__).resolve().parents[2]
SHA256, COMMIT = "0123456789abcdef" * 4, "0123456789" * 4
LOCKED = {
    "commit": COMMIT,
    "date": "2026-01-02",
    "pinned_by": "lock",
    "gated": False,
    "licence": {"hub": None, "entry": None, "agrees": None},
    "files": {"config.json": f"2 git:{COMMIT}"},
}
STUDIES = sorted(path.stem for path in (ROOT / "config" / "studies").glob("*.yaml") if "_entries" not in path.name)
ROWS = {  # what the user brings: a folder in a variable, and the header of its files
    "REFUSAL_EVAL_PROMPTS": ("jsonl", '{"id": "1", "prompt": "Why?", "category": "a"}\n'),
    "TASK_OVER_REFUSAL": ("csv", "plain_text,text_type,intended_task\nTranslate this: 'x',xstest_safe,translate\n"),
}
pytestmark = pytest.mark.feature(
    *("targets", "over_refusals", "ways_of_asking", "tradeoff", "battles", "steering", "separation", "published"),
    *("transforms", "written", "generated", "diversity", "choices", "refusal_tokens"),
    *("attributions", "attention", "eager", "comparisons"),
)


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of config/, next to which a lock file may be written, with the files that a user brings."""
    shutil.copytree(ROOT / "config", tmp_path / "config", ignore=shutil.ignore_patterns("*.lock.yaml"))
    for variable, (ending, content) in ROWS.items():
        folder = tmp_path / variable.lower()
        folder.mkdir()
        text = "".join(path.read_text() for path in (tmp_path / "config" / "studies").glob("*_entries.yaml"))
        for name in re.findall(rf"\$\{{{variable}\}}/(\w+)\.{ending}", text):
            (folder / f"{name}.{ending}").write_text(content)
        monkeypatch.setenv(variable, str(folder))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def loaded(study: Path, open_pins: bool) -> Study:
    values = yaml.safe_load(study.read_text(encoding="utf-8"))
    return Study(load_study(values, str(study), str(ROOT), open_pins=open_pins))


def pin(study: Path) -> list[str]:
    """Write a made-up lock file for what is open; return what that is."""
    sources = {(s, n): source for s, n, _, source in loaded(study, True).sources() if source.open_pin is not None}
    lock: dict[str, list[object]] = {"models": [], "datasets": [], "urls": []}
    for (section, _), source in sources.items():
        if source.kind == "url":
            one = {"url": source.url, "sha256": SHA256, "size": 5, "pinned_by": "lock"}
        else:
            one = {"repo": source.repo, **LOCKED, "whole": section in ("splits", "gold")}
        kind = "urls" if source.kind == "url" else "datasets" if section in ("splits", "gold") else "models"
        if one not in lock[kind]:
            lock[kind].append(one)
    if sources:
        study.with_suffix(".lock.yaml").write_text(yaml.safe_dump({"lock_version": 1, **lock}), encoding="utf-8")
    return [source.shown for source in sources.values()]


@pytest.mark.parametrize("name", STUDIES)
def test_a_shipped_study_is_planned_and_dry_run(name: str, clone: Path) -> None:
    study = clone / "config" / "studies" / f"{name}.yaml"
    assert open_pins(loaded(study, True)) or loaded(study, False)
    plan = [sys.executable, "-m", "refusal_eval", "plan", str(study), "--directory", str(clone)]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "scripts"), "NO_COLOR": "1"}
    planned = subprocess.run(plan, capture_output=True, text=True, cwd=clone, env=environment, check=False)
    assert planned.returncode == 0 and f"Study `{loaded(study, True).name}`" in planned.stdout, planned.stderr
    if open_ := pin(study):
        moved = study.with_suffix(".lock.yaml").rename(clone / "lock")
        with pytest.raises(ConfigError) as reported:
            loaded(study, False)
        said = str(reported.value).splitlines()[1:]
        assert said and all("refusal-eval pin" in line for line in said), (open_, said)
        moved.rename(study.with_suffix(".lock.yaml"))
        assert "refusal-eval pin" in head(study), "the head says how to get what is open"
    dry = [sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile"), "--directory", str(clone), "-n"]
    run = subprocess.run(
        [*dry, "--configfile", str(study), "--workflow-profile", "none"],
        capture_output=True,
        text=True,
        cwd=clone,
        env=environment,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-2000:]


def head(study: Path) -> str:
    """Return the comment at the top of a study."""
    lines = study.read_text(encoding="utf-8").splitlines()[1:]
    return " ".join(
        line.lstrip("# ") for line in lines[: next(i for i, s in enumerate(lines) if not s.startswith("#"))]
    )


@pytest.mark.parametrize("name", STUDIES)
def test_the_head_of_a_study_says_what_its_terms_are(name: str, clone: Path) -> None:
    """What a study has to `allow` is explained where it does, or in the head."""
    study = clone / "config" / "studies" / f"{name}.yaml"
    text = study.read_text(encoding="utf-8")
    if loaded(study, True).settings.allow:
        said = head(study) + "".join(re.findall(r"(?:^#.*\n)+(?=allow:)", text, re.MULTILINE))
        assert re.search(r"licence|terms|commercial|gated|grant", said), said


@pytest.mark.parametrize("name", [name for name in STUDIES if (ROOT / f"config/studies/{name}_targets.csv").exists()])
def test_the_figures_of_a_paper_are_those_of_a_study_that_names_their_file(name: str) -> None:
    text = (ROOT / "config" / "studies" / f"{name}.yaml").read_text(encoding="utf-8")
    assert f"\ntargets: {name}_targets.csv" in text


def test_a_study_says_which_variable_its_files_are_in(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TASK_OVER_REFUSAL")
    with pytest.raises(ConfigError) as reported:
        loaded(clone / "config" / "studies" / "safeconstellations.yaml", False)
    assert "the environment variable ${TASK_OVER_REFUSAL} is not set" in str(reported.value)
