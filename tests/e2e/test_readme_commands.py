"""The README's first command in a fresh clone, as a new user types it: everything is installed and run for real."""

import os
import re
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SETUP_AND_DEMO_SECONDS = 60 * 60  # mostly downloads
SECOND_RUN_SECONDS = 60
# What this test run, its make (`make test-full ARGS=...`) or its environment would hand down; pip's settings stay.
OURS = ("ARGS", "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")


def users_environment() -> dict[str, str]:
    """Return the environment of a user who has not activated anything of this tree."""
    places = [place for place in os.environ["PATH"].split(os.pathsep) if not Path(place).is_relative_to(ROOT)]
    kept = {name: value for name, value in os.environ.items() if name not in OURS}
    return {**kept, "PATH": os.pathsep.join(places), "NO_COLOR": "1"}


def run(command: str, folder: Path, seconds: float) -> str:
    """Run a line as a shell does, in a folder; return what it printed."""
    with subprocess.Popen(
        command,
        shell=True,
        cwd=folder,
        env=users_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=seconds)
        except BaseException:
            os.killpg(process.pid, 15)  # setup.py and snakemake end their own children
            raise
    assert process.returncode == 0, f"{command}\n{output[-6000:]}"
    return output


@pytest.mark.full
@pytest.mark.timeout(SETUP_AND_DEMO_SECONDS + SECOND_RUN_SECONDS + 300)
def test_the_first_command_works_in_a_fresh_clone(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--no-local", str(ROOT), str(clone)], check=True)
    first_block = re.search(r"^```sh\n(.*?)^```", (clone / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    assert first_block
    command = first_block[1].splitlines()[0]
    assert command.split()[:2] == ["make", "demo"]

    said = run(command, clone, SETUP_AND_DEMO_SECONDS)
    assert "downloads about" in said and "MB of disk" in said
    results = clone / "results" / "demo"
    for name in ("tables/refusal.csv", "figures/refusal_heatmap.pdf", "figures/c_histograms.svg", "manifest.json"):
        assert (results / name).stat().st_size > 100
    assert len(list(results.rglob("receipts/**/*.json"))) == 2, "two engine starts"
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=clone, capture_output=True, text=True, check=True)
    assert changed.stdout == "", "git sees nothing of what was installed and made"

    started = time.monotonic()
    assert "Nothing to be done" in run(command, clone, SECOND_RUN_SECONDS)
    assert time.monotonic() - started < SECOND_RUN_SECONDS
