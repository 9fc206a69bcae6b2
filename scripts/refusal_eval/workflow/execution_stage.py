"""What the rules `generate` and `judge` ask alike: the engine of a batch, and what one load of it takes."""

from pathlib import Path
from typing import Any

from refusal_eval.config.engine_entry import Engine
from refusal_eval.core.files import read_json
from refusal_eval.study.batches import shard_of
from refusal_eval.study.study import Study
from refusal_eval.workflow.weights_stage import weights_files

# The most that one load on GPUs is given; fewer where all GPUs of the machine share few cores. vLLM's API server, which
# turns log-probabilities into text, its engine core and our client are busy with one core each, and each GPU with one.
GPU_FEEDING_THREADS = 8
FEW_THREADS = 4  # of a CPU engine in a job on a cluster; a share of no more is taken whole


class Execution:
    """One engine load for one shard of one batch.

    Args:
        study: the validated study.
        root: the repository's folder, which holds the engine's environment.
        cores: the cores that this run of Snakemake may use; None when none were named, as for jobs on a cluster.
        gpu_limit: the GPUs that jobs of this machine may take together; None for jobs on a cluster.
    """

    def __init__(self, study: Study, root: Path, cores: int | None, gpu_limit: int | None = None) -> None:
        self._study, self._root, self._cores, self._gpu_limit = study, root, cores, gpu_limit

    def engine(self, wildcards: Any) -> str:
        """Return the identity file of a batch's engine."""
        return self._study.paths.engine(engine_of(wildcards.batch))

    def weights(self, wildcards: Any) -> list[str]:
        """Return what must be there before the engine can start."""
        return weights_files(self._study, engine_of(wildcards.batch))

    def threads(self, wildcards: Any) -> int:
        """Return all threads for a CPU engine, so that two never run at once; a few to feed GPUs.

        On this machine these are at most a load's share of the cores, so that loads on all GPUs run side by side, and
        of many all but one, so that the quick rules do not wait for a load's end.
        """
        engine = self._engine(wildcards)
        device = engine.device_here(self._root)
        if device is None:
            return 1
        if device == "cpu":
            return self._cores or FEW_THREADS
        if not self._cores or not self._gpu_limit:
            return GPU_FEEDING_THREADS
        share = self._cores * engine.gpus(device) // self._gpu_limit
        return max(1, min(GPU_FEEDING_THREADS, share - 1 if share > FEW_THREADS else share))

    def gpus(self, wildcards: Any, input: Any) -> int:
        """Return the GPUs of one engine load; none when the store already has every response."""
        engine = self._engine(wildcards)
        gpus = engine.gpus(engine.device_here(self._root))
        if gpus == 0:
            return 0
        # Here and not above: the store needs numpy, and the workflow is parsed anew for every job on a cluster.
        from refusal_eval.ask.pending import anything_missing
        from refusal_eval.judges.follow_ups import following

        shard, shards = shard_of(wildcards.load), self._study.settings.shards
        file = Path(self.engine(wildcards))
        tokenizer = read_json(file)["tokenizer_folder"] if file.is_file() else ""
        where = (self._study.paths.store, tokenizer, shard, shards)
        return gpus if anything_missing(input.requests, *where, follow=following) else 0

    def nodes(self, wildcards: Any, input: Any) -> int:
        """Return the machines of one engine load, which Slurm's plugin asks for; one for a job without GPUs."""
        nodes = self._engine(wildcards).nodes_used()
        return nodes if nodes > 1 and self.gpus(wildcards, input) else 1

    def _engine(self, wildcards: Any) -> Engine:
        return self._study.engines[engine_of(wildcards.batch)]


def engine_of(batch: str) -> str:
    """Return the name of the engine behind a batch: the second part of the batch's name."""
    return batch.split("/")[1]
