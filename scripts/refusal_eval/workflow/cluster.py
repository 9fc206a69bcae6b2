"""What differs between jobs of this machine and jobs of a cluster."""

from typing import Any

from refusal_eval.core.slurm_jobs import SlurmJob
from refusal_eval.workflow.earlier_runs import jobs_of_earlier_runs, shares_requests
from refusal_eval.workflow.execution_stage import Execution

GPUS_AT_A_TIME = 1  # on this machine, where nobody said how many


def submits(workflow: Any) -> bool:
    """Tell whether this process submits jobs to a cluster: those are counted (`--jobs`), local ones share cores."""
    return bool(workflow.is_main_process and workflow.nodes is not None)


def limit_gpus(workflow: Any) -> None:
    """Let jobs of this machine use one GPU at a time unless `--resources gpu=N` says otherwise.

    A profile cannot say this: profiles/default is loaded for clusters too, where it would hold back all jobs but one
    and, what is worse, silently cut every job down to one GPU.

    Args:
        workflow: Snakemake's.
    """
    if workflow.is_main_process and not submits(workflow) and "gpu" not in workflow.global_resources:
        workflow.register_resource("gpu", GPUS_AT_A_TIME)


def gpu_limit(workflow: Any) -> int | None:
    """Return the GPUs that jobs of this machine may take together, after `limit_gpus`; None for jobs on a cluster.

    Args:
        workflow: Snakemake's.
    """
    if submits(workflow) or not workflow.is_main_process:
        return None
    return int(workflow.global_resources["gpu"].value)


class Placement:
    """Where and when on a cluster an engine load is to run. Without a cluster's profile all answers are None.

    Args:
        execution: tells the GPUs of an engine load.
        workflow: Snakemake's, which holds the profile's `default-resources`.
        results: the study's folder.
    """

    def __init__(self, execution: Execution, workflow: Any, results: str) -> None:
        self._execution, self._results = execution, results
        self._submits = submits(workflow)
        self._earlier: list[SlurmJob] | None = None
        self._defaults = workflow.resource_settings.default_resources or {}

    def gpu_model(self, wildcards: Any, input: Any) -> str | None:
        """Return the profile's GPU model for a job that needs GPUs.

        Slurm's plugin asks for a GPU as soon as a job has a model.
        """
        model = self._default("gpu_model")
        return model if model and self._execution.gpus(wildcards, input) else None

    def partition(self, wildcards: Any, input: Any) -> str | None:
        """Return the profile's `slurm_partition`; for a job that needs no GPU its `cpu_partition`, if it names one.

        Many partitions with GPUs refuse jobs that want none.
        """
        without_gpus = self._default("cpu_partition")
        if without_gpus and not self._execution.gpus(wildcards, input):
            return without_gpus
        return self._default("slurm_partition")

    def options(self, wildcards: Any) -> str | None:
        """Return the profile's `slurm_extra`, and that a job comes after those of earlier runs for the same batch.

        The same also where the batch had other cells by then: both may hold the same requests.
        """
        earlier = [job.number for job in self.earlier_jobs() if shares_requests(job.comment, wildcards)]
        dependency = f"--dependency=afterany:{':'.join(earlier)}" if earlier else None
        return " ".join(filter(None, (self._default("slurm_extra"), dependency))) or None

    def earlier_jobs(self) -> list[SlurmJob]:
        """Return the jobs that earlier runs of this study left on the cluster; none unless this run submits jobs."""
        if self._earlier is None:
            self._earlier = jobs_of_earlier_runs(self._results) if self._submits else []
        return self._earlier

    def _default(self, name: str) -> str | None:
        # As the profile has it: values of `default-resources` are expressions until a job asks.
        value = getattr(self._defaults.get(name), "raw", None)
        return None if value is None else str(value)
