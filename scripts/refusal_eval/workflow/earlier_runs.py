"""Jobs that runs of snakemake left on the cluster: a killed snakemake cancels nothing."""

import contextlib
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json, write_json
from refusal_eval.core.slurm_jobs import NoAnswer, SlurmJob, jobs_named
from refusal_eval.study.batches import LOAD_NAME, shard_of, shards_of

FOLDER = "running/runs"
RULES = ("generate", "judge")  # the ones that are submitted


def record_run(workflow: Any, results: str, earlier: list[SlurmJob]) -> None:
    """Write down under which name this run submits its jobs to Slurm, for the next run, and tell of earlier jobs.

    Args:
        workflow: Snakemake's, whose executor is there.
        results: the study's folder.
        earlier: what `jobs_of_earlier_runs` found.
    """
    if earlier:
        from snakemake.logging import logger  # this module is read outside Snakemake, too

        logger.warning(told(earlier))
    executor = getattr(getattr(workflow, "scheduler", None), "_executor", None)
    if name := getattr(executor, "run_uuid", None):
        write_json(Path(results, FOLDER, f"{name}.json"), {"name": name, "time": time.time()})


def jobs_of_earlier_runs(results: str) -> list[SlurmJob]:
    """Return the jobs of earlier runs of a study that are queued or run; records of runs without any are removed.

    None are returned where Slurm does not answer: the jobs themselves look again when they start.
    """
    records: dict[str, Path] = {}
    for path in sorted(Path(results, FOLDER).glob("*.json")):
        with contextlib.suppress(OSError, UserError, KeyError, TypeError):
            records[str(read_json(path)["name"])] = path
    try:
        found = {name: jobs_named([name]) for name in records}
    except NoAnswer:
        return []
    for name, jobs in found.items():
        if not jobs:
            records[name].unlink(missing_ok=True)
    return [job for jobs in found.values() for job in jobs]


def told(jobs: list[SlurmJob]) -> str:
    """Return what to say about such jobs."""
    lines = [f"    {job.number}  {job.state.lower()}  {job.comment}" for job in jobs]
    numbers = " ".join(job.number for job in jobs)
    return (
        "Slurm jobs of an earlier run of this study are still there:\n"
        + "\n".join(lines)
        + "\nA job of this run for the same batch starts when they are over, and executes what they leave."
        + f"\nTo end them instead: scancel {numbers} (what they have is in the store)"
    )


def shares_requests(comment: str, wildcards: Iterable[Any]) -> bool:
    """Tell whether the job with this comment may execute requests of the load that these wildcards name.

    That is a load of the same batch and the same shard, or of another number of shards; its cells may have changed.
    """
    *batch, load = map(str, wildcards)
    heads = [comment_of(rule, [*batch, ""]) for rule in RULES]
    other = next((comment.removeprefix(head) for head in heads if comment.startswith(head)), "")
    if LOAD_NAME.fullmatch(other) is None:  # another batch, whose name begins like this one's
        return False
    return shards_of(other) != shards_of(load) or shard_of(other) == shard_of(load)


def comment_of(rule: str, wildcards: Iterable[Any]) -> str:
    """Return the comment that Snakemake's Slurm plugin gives a job."""
    return f"rule_{rule}_wildcards_{'_'.join(str(value) for value in wildcards).replace('/', '_')}"
