"""Jobs that runs of snakemake left on the cluster: a killed snakemake cancels nothing."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from refusal_eval.core.slurm_jobs import NoAnswer, SlurmJob, batch_script, own_jobs
from refusal_eval.study.batches import LOAD_NAME, shard_of, shards_of

RULES = ("generate", "judge")  # the ones that are submitted
STUDY_OF_SCRIPT = re.compile(r"--(configfiles|snakefile) +('[^']+'|\S+)")


def jobs_of_earlier_runs(study_file: str) -> list[SlurmJob]:
    """Return the engine loads of a study that are queued or run, before this run submits its own.

    None are returned where Slurm does not answer: the jobs themselves look again when they start.
    """
    heads = tuple(comment_of(rule, [""]) for rule in RULES)
    try:
        loads = [job for job in own_jobs() if job.comment.startswith(heads)]
        return [job for job in loads if _study_file(job) == Path(study_file).resolve()]
    except NoAnswer:
        return []


def _study_file(job: SlurmJob) -> Path:
    """Return the study file of a job that Snakemake submitted; without `--configfiles` that is the demo's."""
    named = {option: value.strip("'") for option, value in STUDY_OF_SCRIPT.findall(batch_script(job.number))}
    if file := named.get("configfiles"):
        return Path(job.folder, file).resolve()
    folder = Path(job.folder, named.get("snakefile", "")).parent
    return (folder.parent if folder.name == "workflow" else folder).resolve() / "config" / "config.yaml"


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
