"""A small study that runs on the test cluster through profiles/slurm, with a stand-in for the engine."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from e2e.faults import Run, stored, wait_for
from project import ROOT, Project, make_project
from slurm import stand_in_engine
from slurm.cluster import Cluster

PATIENCE = 900.0  # seconds, for whatever takes seconds on a machine with nothing else to do
FEW_SECONDS = ("--slurm-init-seconds-before-status-checks", "3", "--latency-wait", "10")
# The test cluster keeps no accounts.
WITHOUT_ACCOUNTS = ("--slurm-status-command", "squeue", "--slurm-no-account")
ENGINE = "tiny"
GPUS = 2


class Study:
    """A study's folder and the cluster that it runs on.

    Args:
        project: the study; its engine is the stand-in.
        cluster: a running cluster.
        profile: the profile to run with.
    """

    def __init__(self, project: Project, cluster: Cluster, profile: Path = ROOT / "profiles" / "slurm") -> None:
        self.project, self.cluster, self.profile = project, cluster, profile
        self._runs = 0

    @property
    def engine(self) -> Path:
        """Folder of the stand-in."""
        return self.project.folder / "engine"

    def start(self, *arguments: str) -> Run:
        """Start snakemake for the answers of the study, on the cluster."""
        command = [sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile"), "--profile", str(self.profile)]
        command += ["--directory", str(self.project.folder), "--configfile", str(self.project.folder / "study.yaml")]
        command += [*WITHOUT_ACCOUNTS, *FEW_SECONDS, *(arguments or ("--until", "answers"))]
        self._runs += 1
        output = self.project.folder / f"run{self._runs}.txt"
        with open(output, "wb") as stream:
            process = subprocess.Popen(
                command,
                cwd=self.project.folder,
                env={**os.environ, **self.cluster.environment(), "NO_COLOR": "1"},
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )
        return Run(self.project, Path("/tmp"), process, output)

    def run(self, *arguments: str) -> Run:
        """Run snakemake to its end."""
        run = self.start(*arguments)
        run.wait(PATIENCE)
        return run

    def succeed(self, *arguments: str) -> Run:
        """Run snakemake to its end; it must succeed."""
        run = self.run(*arguments)
        assert run.process.returncode == 0, run.said()[-6000:]
        return run

    def stored(self) -> dict[str, list[bytes]]:
        """Return the records of the store by key."""
        return stored(self.project.store)

    def wait_for_records(self, run: Run | None, count: int) -> None:
        """Wait until the store holds so many."""
        wait_for(f"{count} records", lambda: len(self.stored()) >= count, PATIENCE, run)

    def asked(self) -> list[str]:
        """Return a digest of each request that an engine answered."""
        return [str(row["digest"]) for row in self.asked_by()]

    def asked_by(self) -> list[dict[str, Any]]:
        """Return the same with the Slurm job that asked."""
        return stand_in_engine.asked(self.engine)


def submitted(run: Run) -> list[str]:
    """Return the numbers of the Slurm jobs that a run submitted."""
    return re.findall(r"submitted with SLURM jobid (\d+)", run.said())


def the_job(run: Run) -> str:
    """Return the number of the one job that a run submits, as soon as it has."""
    wait_for("submitted job", lambda: submitted(run), PATIENCE, run)
    (number,) = submitted(run)
    return number


def make_study(
    folder: Path,
    cluster: Cluster,
    start: float = 0.5,
    request: float = 0.0,
    profile: Sequence[str] = (),
    gpus: int = GPUS,
) -> Study:
    """Write a study whose requests are made; an engine takes two GPUs.

    Args:
        folder: for the study.
        cluster: a running cluster.
        start: seconds that the engine takes to start.
        request: seconds that it takes for a request.
        profile: names of the lines of profiles/slurm that are to count, each with a value: `gpu_model=test`.
        gpus: `tensor_parallel` of the engine.
    """
    project = make_project(folder)
    python = stand_in_engine.install(folder / "engine", start, request)
    project.catalogue("engines", ENGINE, device="cuda", tensor_parallel=gpus, python=str(python))
    project.study(samples=2, judges=["words"], gold=[])
    project.snakemake("--until", "requests")
    return Study(
        project, cluster, profile_with(folder / "profile", profile) if profile else ROOT / "profiles" / "slurm"
    )


def profile_with(folder: Path, lines: Sequence[str]) -> Path:
    """Return a copy of profiles/slurm in which some of its commented lines count, as a user would change it."""
    text = (ROOT / "profiles" / "slurm" / "config.yaml").read_text()
    for line in lines:
        name, value = line.split("=")
        text, changed = re.subn(rf"^  # {name}: \S+", f"  {name}: {value}", text, flags=re.MULTILINE)
        assert changed == 1, f"profiles/slurm has a line for {name}"
    folder.mkdir()
    (folder / "config.yaml").write_text(text)
    assert set(yaml.safe_load(text)["default-resources"]) >= {line.split("=")[0] for line in lines}
    return folder
