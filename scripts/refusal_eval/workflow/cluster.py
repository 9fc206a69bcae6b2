"""What differs between jobs of this machine and jobs of a cluster: GPUs at a time, partitions, and earlier runs."""

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from refusal_eval.core.slurm_jobs import NoAnswer, SlurmJob, own_jobs, slurm_answer
from refusal_eval.study.batches import LOAD_NAME, shard_of, shards_of
from refusal_eval.study.engine_environment import built_for, lacks_cuda
from refusal_eval.study.files import file_table

STUDY_OF_SCRIPT = re.compile(r"--(configfiles|snakefile) +('[^']+'|\S+)")


def submitted_rules(by_load: bool) -> list[str]:
    """Return the rules that are submitted.

    Args:
        by_load: those whose jobs are the loads (shards) of one thing, or all others.
    """
    files = [file for file in file_table().values() if file.submitted and ("load" in file.wildcards) == by_load]
    return [rule for file in files for rule in file.rules]


def submits(workflow: Any) -> bool:
    """Tell whether this process submits jobs to a cluster: those are counted (`--jobs`), local ones share cores."""
    return bool(workflow.is_main_process and workflow.nodes is not None)


def gpu_limit(workflow: Any) -> int | None:
    """Return the GPUs that jobs of this machine may take together, by `--resources gpu=N`.

    None if nobody said how many, and for jobs on a cluster, where that number does not concern a machine. A process
    that carries out one job has been given its cores already.
    """
    if submits(workflow) or not workflow.is_main_process or "gpu" not in workflow.global_resources:
        return None
    return int(workflow.global_resources["gpu"].value)


def gpu_model(workflow: Any, gpus: int) -> str | None:
    """Return the profile's GPU model for a job that needs GPUs.

    Slurm's plugin asks for a GPU as soon as a job has a model.
    """
    return (_default(workflow, "gpu_model") or None) if gpus else None


def partition(workflow: Any, gpus: int) -> str | None:
    """Return the profile's `slurm_partition`; for a job that needs no GPU its `cpu_partition`, if it names one.

    Many partitions with GPUs refuse jobs that want none.
    """
    return (None if gpus else _default(workflow, "cpu_partition")) or _default(workflow, "slurm_partition")


def options(workflow: Any, wildcards: Iterable[Any], earlier: Sequence[SlurmJob]) -> str | None:
    """Return the profile's `slurm_extra`, and that a job comes after those of earlier runs for the same batch, or cell.

    The same also where the batch had other cells by then: both may hold the same requests.
    """
    numbers = [job.number for job in earlier if shares_requests(job.comment, wildcards)]
    dependency = f"--dependency=afterany:{':'.join(numbers)}" if numbers else None
    return " ".join(filter(None, (_default(workflow, "slurm_extra"), dependency))) or None


def _default(workflow: Any, name: str) -> str | None:
    """Return what a profile says in `default-resources`, as it is written there: an expression until a job asks.

    Values are unevaluated Python expressions, so a plain word is a quoted string; its quotes are removed.
    """
    value = getattr((workflow.resource_settings.default_resources or {}).get(name), "raw", None)
    with suppress(ValueError, SyntaxError):
        if isinstance(word := ast.literal_eval(str(value)), str):
            return word
    return None if value is None else str(value)


def about_cpu_build(engines: Mapping[str, Mapping[str, Any]], root: Path, submits: bool) -> str | None:
    """Return what to say where the engine environment is the CPU build and engines may be meant to use GPUs.

    A cluster's login node has no driver, so `make setup` there takes the CPU build unless somebody says otherwise.
    """
    if built_for(root) != "cpu":
        return None
    auto = [name for name, entry in engines.items() if entry.get("device") == "auto" and not entry.get("python")]
    stopped = [name for name, entry in engines.items() if lacks_cuda(entry, root)]
    lines = [f"{name}: will not start, as it has `device: cuda`" for name in stopped]
    lines += [f"{name}: its jobs request no GPU (set `device: cpu` if that is intended)" for name in auto if submits]
    head = "The engine environment is the CPU build; for GPUs run `make setup ENGINE=cuda`."
    return "\n    ".join([head, *lines]) if lines else None


# ---------------------------------------------------------------- jobs that a killed snakemake left


def jobs_of_earlier_runs(study_file: str) -> list[SlurmJob]:
    """Return the engine loads and captures of a study that are queued or run, before this run submits its own.

    None are returned where Slurm does not answer: the jobs themselves look again when they start.
    """
    heads = tuple(comment_of(rule, [""]) for rule in (*submitted_rules(True), *submitted_rules(False)))
    try:
        loads = [job for job in own_jobs() if job.comment.startswith(heads)]
        return [job for job in loads if _study_file(job) == Path(study_file).resolve()]
    except NoAnswer:
        return []


def _study_file(job: SlurmJob) -> Path:
    """Return the study file of a job that Snakemake submitted; without `--configfiles` that is the demo's."""
    script = slurm_answer("scontrol", "write", "batch_script", job.number, "-")
    named = {option: value.strip("'") for option, value in STUDY_OF_SCRIPT.findall(script)}
    if file := named.get("configfiles"):
        return Path(job.folder, file).resolve()
    folder = Path(job.folder, named.get("snakefile", "")).parent
    return (folder.parent if folder.name == "workflow" else folder).resolve() / "config" / "config.yaml"


def about_jobs(jobs: list[SlurmJob]) -> str:
    """Return what to say about such jobs."""
    lines = [f"    {job.number}  {job.state.lower()}  {job.comment}" for job in jobs]
    numbers = " ".join(job.number for job in jobs)
    return (
        "Slurm jobs of an earlier run of this study are still there:\n"
        + "\n".join(lines)
        + "\nA job of this run for the same work starts when they are over, and executes what they leave."
        + f"\nTo end them instead: scancel {numbers} (what they have is in the store)"
    )


def shares_requests(comment: str, wildcards: Iterable[Any]) -> bool:
    """Tell whether the job with this comment may execute requests of the load that these wildcards name.

    That is a load of the same batch and the same shard, or of another number of shards; its cells may have changed.
    Of a capture it is one of the same activations.
    """
    wildcards = list(wildcards)
    if comment in [comment_of(rule, wildcards) for rule in submitted_rules(by_load=False)]:
        return True
    *batch, load = map(str, wildcards)
    heads = [comment_of(rule, [*batch, ""]) for rule in submitted_rules(by_load=True)]
    other = next((comment.removeprefix(head) for head in heads if comment.startswith(head)), "")
    if LOAD_NAME.fullmatch(other) is None:  # another batch, whose name begins like this one's
        return False
    return shards_of(other) != shards_of(load) or shard_of(other) == shard_of(load)


def comment_of(rule: str, wildcards: Iterable[Any]) -> str:
    """Return the comment that Snakemake's Slurm plugin gives a job."""
    return f"rule_{rule}_wildcards_{'_'.join(str(value) for value in wildcards).replace('/', '_')}"
