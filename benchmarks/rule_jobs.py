"""The jobs that come after verdicts, run by the rules' own scripts but without a process of Snakemake for each.

Snakemake plans: which jobs, in which order, with which inputs, outputs and params. Each script is then run with a
`snakemake` object like the one that it gets in a job. No rule that draws, judges or fetches can run in this way.
"""

from __future__ import annotations

import contextlib
import gc
import io
import multiprocessing
import os
import resource
import runpy
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from refusal_eval.core.errors import UserError

ROOT = Path(__file__).resolve().parents[1]
# What comes before scores is taken as it is.
STAGES_BEFORE = ("data.smk", "weights.smk", "generate.smk", "judge.smk")
# As in a job of Snakemake: each has one core, and threads of linear algebra that wait for each other would fill more.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Job:
    """One job: its rule, its script, and what the script sees of it."""

    rule: str
    script: str
    seen: SimpleNamespace

    @property
    def inputs(self) -> list[str]:
        """The files that it reads."""
        return [str(path) for path in self.seen.input]

    @property
    def outputs(self) -> list[str]:
        """The files that it writes."""
        return [str(path) for path in self.seen.output]


@dataclass(frozen=True)
class Done:
    """A finished job.

    Attributes:
        rule: its rule.
        seconds: that it took.
        cpu_seconds: of processor time.
        process: that ran it.
        peak: memory of that process so far, GiB.
    """

    rule: str
    seconds: float
    cpu_seconds: float
    process: int
    peak: float


def planned(study: Path, folder: Path, changes: Mapping[str, Any], without: Collection[str] = ()) -> list[list[Job]]:
    """Return the jobs after verdicts of a study, in levels of jobs that do not need each other.

    Args:
        study: the study file.
        folder: the working folder.
        changes: keys of the study that are to have other values.
        without: rules to be left out.
    """
    from snakemake.api import SnakemakeApi
    from snakemake.settings.types import ConfigSettings, DAGSettings, OutputSettings, Quietness, ResourceSettings

    with SnakemakeApi(OutputSettings(quiet={Quietness.ALL})) as api:
        workflow = api.workflow(
            resource_settings=ResourceSettings(cores=1),
            config_settings=ConfigSettings(configfiles=[study], config=dict(changes)),
            snakefile=ROOT / "Snakefile",
            workdir=folder,
        )
        workflow.dag(DAGSettings(forceall=True))
        # The API prints a DAG but does not hand it out; these are the first two steps of its `printdag`.
        inner = workflow._workflow
        inner._prepare_dag(forceall=True, ignore_incomplete=True, lock_warn_only=True)
        inner._build_dag()
        levels = [[job for job in level if _wanted(job, without)] for level in inner.dag.toposorted()]
        config = dict(inner.config)
        return [sorted((_job(job, config) for job in level), key=lambda j: j.outputs) for level in levels if level]


def run(levels: Sequence[Sequence[Job]], folder: Path, processes: int) -> Iterator[Done]:
    """Run jobs level by level in new processes, with `folder` as working folder; yield each when it is done.

    What they log to the console is dropped; their log files have it.
    """
    # Spawned and not forked: a fork would begin with this process's memory.
    context = multiprocessing.get_context("spawn")
    os.environ.update(ONE_THREAD)  # the new processes have it before they load a library
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        for level in levels:
            yield from pool.map(_run, level, [str(folder)] * len(level))


def _wanted(job: Any, without: Collection[str]) -> bool:
    stage = Path(str(job.rule.snakefile)).name
    return bool(job.rule.script) and stage not in STAGES_BEFORE and job.rule.name not in without


def _job(job: Any, config: Mapping[str, Any]) -> Job:
    files = {name: getattr(job, name)._plainstrings() for name in ("input", "output", "log")}
    script = (Path(str(job.rule.snakefile)).parent / str(job.rule.script)).resolve()
    others = {"params": job.params, "wildcards": job.wildcards, "config": dict(config), "rule": job.rule.name}
    return Job(job.rule.name, str(script), SimpleNamespace(**files, **others))


def _run(job: Job, folder: str) -> Done:
    os.chdir(folder)
    scripts = str(Path(job.script).parent)
    if scripts not in sys.path:
        sys.path.insert(0, scripts)
    for path in job.outputs:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    started, cpu = time.perf_counter(), time.process_time()
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            runpy.run_path(job.script, init_globals={"snakemake": job.seen})
    except (Exception, SystemExit) as error:
        raise UserError(
            "the stored answers and verdicts are not those of the study as it is: "
            f"rule {job.rule} cannot compute from them ({error}); run the study again, without --touch"
        ) from error
    finally:
        gc.enable()  # some scripts turn it off for themselves
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return Done(job.rule, seconds, time.process_time() - cpu, os.getpid(), peak)
