"""What differs between jobs of this machine and jobs of a cluster: GPUs at a time, partitions, and earlier runs."""

from collections.abc import Iterable, Sequence
from typing import Any

from refusal_eval.core.slurm_jobs import SlurmJob
from refusal_eval.workflow.earlier_runs import shares_requests


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
    """Return the profile's `slurm_extra`, and that a job comes after those of earlier runs for the same batch.

    The same also where the batch had other cells by then: both may hold the same requests.
    """
    numbers = [job.number for job in earlier if shares_requests(job.comment, wildcards)]
    dependency = f"--dependency=afterany:{':'.join(numbers)}" if numbers else None
    return " ".join(filter(None, (_default(workflow, "slurm_extra"), dependency))) or None


def _default(workflow: Any, name: str) -> str | None:
    """Return what a profile says in `default-resources`, as it is written there: an expression until a job asks."""
    value = getattr((workflow.resource_settings.default_resources or {}).get(name), "raw", None)
    return None if value is None else str(value)
