"""What the rules `generate` and `judge` ask alike: the engine of a batch, and what one load of it takes."""

import os
from collections.abc import Hashable, Iterable
from functools import lru_cache
from pathlib import Path

from refusal_eval.core.files import read_json
from refusal_eval.study.batches import shard_of, shards_of
from refusal_eval.study.study import Study
from refusal_eval.weights.fingerprint import states_of

# The most that one load on GPUs is given; fewer where all GPUs of the machine share few cores. vLLM's API server, which
# turns log-probabilities into text, its engine core and our client are busy with one core each, and each GPU with one:
# a job on a cluster, which is confined to what it asks for, gets more for more GPUs.
GPU_FEEDING_THREADS = 8
BESIDE_THE_GPUS = 3
FEW_THREADS = 4  # of a CPU engine in a job on a cluster; a share of no more is taken whole


def engine_of(batch: str) -> str:
    """Return the name of the engine behind a batch: the second part of the batch's name."""
    return batch.split("/")[1]


def batches(study: Study, of_stage: Iterable[str], elsewhere: bool) -> list[str]:
    """Return those batches whose engine computes `elsewhere`, or those of all others."""
    return [batch for batch in of_stage if study.engines[engine_of(batch)].elsewhere == elsewhere]


def threads(study: Study, name: str, root: Path, cores: int | None, gpu_limit: int | None, submits: bool) -> int:
    """Return the threads of one load of an engine.

    On this machine a load takes all cores, so that no two run at once; where `--resources gpu=N` says that GPUs work
    side by side, at most its share of the cores, and of many all but one, so that the quick rules do not wait for it.

    Args:
        name: the engine's name.
        root: the repository's folder, which holds the engine's environment.
        cores: the cores that this run of Snakemake may use; None when none were named, as for jobs on a cluster.
        gpu_limit: the GPUs that jobs of this machine may take together; None if nobody said.
        submits: whether jobs go to a cluster.
    """
    engine = study.engines[name]
    device = engine.device_here(root)
    if device is None:
        return 1
    if device == "cpu":
        return cores or FEW_THREADS
    if submits or not cores:
        return max(GPU_FEEDING_THREADS, BESIDE_THE_GPUS + engine.gpus(device) // engine.nodes_used())
    if not gpu_limit:
        return cores
    share = cores * engine.gpus(device) // gpu_limit
    return max(1, min(GPU_FEEDING_THREADS, share - 1 if share > FEW_THREADS else share))


def gpus(study: Study, batch: str, load: str, root: Path, requests: Iterable[str]) -> int:
    """Return the GPUs of one engine load; none when the store already has every response.

    Args:
        batch: the batch's name.
        load: the load's name, which tells its part of the requests.
        root: the repository's folder, which holds the engine's environment.
    """
    engine = study.engines[engine_of(batch)]
    gpus = engine.gpus(engine.device_here(root))
    if gpus == 0:
        return 0
    requests = list(requests)
    if not all(map(os.path.exists, requests)):  # nothing is asked yet, and the store may be large
        return gpus
    file = Path(study.paths.of("engines", engine=engine_of(batch)))
    described = read_json(file) if file.is_file() else {"engine_id": "*", "tokenizer_folder": ""}
    stored = Path(study.paths.store).glob(f"{described['engine_id']}/*.jsonl")
    files = [*requests, *sorted(map(os.path.abspath, stored))]
    states = tuple(map(tuple, states_of(".", files)))
    where = (study.paths.store, described["tokenizer_folder"], shard_of(load), shards_of(load))
    return gpus if _anything_missing(states, tuple(requests), *where) else 0


@lru_cache
def _anything_missing(
    states: tuple[Hashable, ...], requests: tuple[str, ...], store: str, tokenizer: str | None, shard: int, shards: int
) -> bool:
    """Tell it once for these `states` of the files: several resources of one load depend on it, and all is read."""
    # Here and not above: the store needs numpy, and the workflow is parsed again for every job on a cluster.
    from refusal_eval.ask.pending import anything_missing
    from refusal_eval.judges.follow_ups import following

    return anything_missing(requests, store, tokenizer, shard, shards, follow=following)
