"""Compute nodes without internet: what was fetched on the login node is all that the rest of a study needs.

The real engine runs in a network namespace of its own, where nothing but loopback is there.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from e2e.faults import answers, receipts
from e2e.real import SHORT, real_project
from project import ROOT

pytestmark = [pytest.mark.full, pytest.mark.timeout(3600)]
# Brings up loopback, as every node has it, shows that nothing else is there, and becomes the command.
WITHOUT_NETWORK = """
import fcntl, os, socket, struct, sys
with socket.socket() as any_socket:
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sH14s", b"lo", 0x1 | 0x40, b""))
for place in (("198.51.100.1", 443), ("pypi.org", 443)):
    try:
        socket.create_connection(place, timeout=5)
    except OSError:
        continue
    sys.exit(f"there is a network: {place}")
print("no network", flush=True)
os.execvp(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture(scope="module")
def unshare() -> list[str]:
    """Return the command that runs another one without a network."""
    command = ["unshare", "--net", sys.executable, "-c", WITHOUT_NETWORK]
    tried = subprocess.run([*command, "true"], capture_output=True, text=True)
    if tried.returncode != 0:
        pytest.skip(f"no network namespace here: {tried.stderr.strip()[-200:]}")
    return command


def test_after_fetch_a_study_runs_without_network(unshare: list[str], tmp_path: Path) -> None:
    # A cache of its own: nothing is there before.
    project = real_project(
        tmp_path / "project",
        models=["plain"],
        splits=["safe"],
        samples=1,
        judges=["keyword", "label"],
        cache_dir="cache",
    )
    project.catalogue("models", "plain", sampling={**SHORT, "max_tokens": 8})
    study = yaml.safe_load((project.folder / "study.yaml").read_text())
    (project.folder / "study.yaml").write_text(yaml.safe_dump(study | {"gold": ["pyrit-refusal"]}))

    run = project.snakemake("fetch")
    assert (project.folder / "cache" / "weights").is_dir() and (project.folder / "cache" / "rows").is_dir()
    made = {path.name for path in project.results.iterdir()} - {"logs", "config.yaml", "study.json"}
    assert made == set(), "it fetches, and does nothing else"
    assert "Nothing to be done" not in run.stderr

    command = [*unshare, sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile")]
    command += ["--directory", str(project.folder), "--configfile", str(project.folder / "study.yaml"), "--cores", "2"]
    # What a user's shell may hold must not send the engine to a network either.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    offline = subprocess.run(
        command, cwd=project.folder, env=environment | {"NO_COLOR": "1"}, capture_output=True, text=True
    )
    assert offline.returncode == 0, offline.stdout[-3000:] + offline.stderr[-6000:]
    assert "no network" in offline.stdout
    assert len(answers(project)) >= 1
    loads = {Path(path).parts[0]: receipt for path, receipt in receipts(project).items()}
    assert set(loads) == {"generate", "judge"} and loads["generate"]["executed"] == 4
    assert all(load["executed"] > 0 and load["engine"]["serving"]["device"] == "cpu" for load in loads.values())
    assert (project.results / "tables" / "refusal.csv").exists()


def test_fetch_names_every_rule_that_needs_a_network() -> None:
    """A rule whose script opens connections is one of those that `make fetch` runs."""
    needing = set()
    for rules in sorted((ROOT / "workflow" / "rules").glob("*.smk")):
        for block in rules.read_text().split("\nrule ")[1:]:
            name, script = block.split(":", 1)[0], block.split("../../scripts/")[1].split('"')[0]
            source = (ROOT / "scripts" / script).read_text()
            if "fetch" in script or "keep_trying" in source or "data.hub" in source:
                needing.add(name)
    assert needing == {"fetch_rows", "fetch_tokenizer", "fetch_weights", "fetch_adapter"}
