"""What a study costs: the engine loads of its batches, and how long each is estimated to take.

An estimate orders jobs and compares settings; it promises no hour of its arrival. It knows an engine by its size and
devices only. What was measured is said beside the number, and so is what is merely assumed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from refusal_eval.study.batches import GOLD, Cell, generation_batches, judging_batches

# -------------------------------------------- measured: SmolLM2-135M on 2 cores with vLLM's CPU build
MEASURED_BILLIONS = 0.135
CPU_START_SECONDS = {"eager": 40.0, "compiled": 90.0}  # 35-45 s with --enforce-eager, 80-100 s without
CPU_WRITE_RATE = 190.0  # generated tokens/s with many requests at once: 180-200
CPU_STREAM_RATE = 40.0  # generated tokens/s with one request at a time
CPU_READ_RATE = 1000.0  # prompt tokens/s: 6 judged answers/s, of 4,000 tokens each and 4 % of them not in the cache

# -------------------------------------------- assumed: a data-centre GPU of the A100's kind
# The order of magnitude of published figures; an H100 is about twice as fast. With them one GPU writes 3,100 tokens/s
# of an 8B model in bfloat16 with many requests at once, and 75-100 tokens/s of one request.
GPU_WRITE_FLOPS = 50e12  # of the 312e12 that bfloat16 could have: writing waits for memory
GPU_READ_FLOPS = 150e12
GPU_MEMORY_BYTES = 1.5e12  # per second: each token of a single request reads all weights once
PARALLEL_SHARE = 0.85  # of the speed that is left at each doubling of the GPUs of one copy
# vLLM's issue 20264: 59 s for a 3B model with everything cached; issue 19824: 215 s for a 70B model on 8 GPUs.
GPU_START_SECONDS = 60.0
GPU_START_SECONDS_PER_DOUBLING = 20.0  # capturing graphs and setting up communication takes longer on several GPUs
GPU_LOAD_BYTES = 1e9  # per second from disk; a file system that many jobs share
# Answers that are written at a time: each step reads all weights, those of all experts too, and gives so many tokens.
GPU_TEXTS_AT_A_TIME = 256

# -------------------------------------------- assumed: texts and sizes
STRICT_SHARE = {"cpu": CPU_STREAM_RATE / CPU_WRITE_RATE, "cuda": 0.6}  # one at a time; batch-invariant kernels
# Mean tokens of an answer: all that it may have, where that is less than these (measured at 64: 94 of 96 answers end
# by length). A refusal is shorter than an explanation, and what a model reasons depends on the question.
PLAIN_ANSWER = 600.0
REASONED_ANSWER = 3000.0  # reasoning included
# Mean tokens of a verdict that a judge writes: its analysis, and before it what a judge reasons that does so.
PLAIN_VERDICT = 250.0
REASONED_VERDICT = 1000.0
FIXED_VERDICT = 20.0  # of a judge with a form of its own
BYTES_PER_PARAMETER = {"bfloat16": 2.0, "float16": 2.0, "float32": 4.0}
QUANTIZED_BYTES = 1.0

MISSING, COUNTED, ASSUMED = "missing in the store", "prompts x K", "assumed prompts x K"


@dataclass(frozen=True)
class CellWork:
    """What is to be executed for one cell.

    Attributes:
        requests: how many requests.
        prompts: how many different prompts they have; samples that share a prompt share its reading.
        tokens_per_prompt: mean tokens of a prompt that are read anew, without what all prompts begin with.
        answer_tokens: mean tokens of an answer.
        most_tokens: the most tokens of an answer.
        known: how the number of requests is known: MISSING, COUNTED or ASSUMED.
        stored: responses that the store has already (only where MISSING says that it was looked into).
        outdated: whether an earlier run left requests of this cell that no longer hold, and so do not count.
    """

    requests: int
    prompts: int
    tokens_per_prompt: float
    answer_tokens: float
    most_tokens: int
    known: str = COUNTED
    stored: int = 0
    outdated: bool = False

    @property
    def read_tokens(self) -> float:
        """Estimated tokens of prompts that are read."""
        return min(self.requests, self.prompts) * self.tokens_per_prompt

    @property
    def written_tokens(self) -> float:
        """Estimated tokens that are generated."""
        return self.requests * self.answer_tokens


@dataclass(frozen=True)
class Pace:
    """How fast one load of an engine is.

    Attributes:
        kind: cpu or cuda.
        devices: GPUs of one load; a CPU engine takes the whole machine, which counts as one device.
        start_seconds: from the start of the server until it answers.
        read_rate: prompt tokens/s.
        write_rate: generated tokens/s with many requests at once.
        stream_rate: generated tokens/s of one request.
    """

    kind: str
    devices: int
    start_seconds: float
    read_rate: float
    write_rate: float
    stream_rate: float


@dataclass(frozen=True)
class Load:
    """One engine load: a shard of a batch.

    Attributes:
        stage: generate or judge.
        batch: name of the batch.
        shard: number of the shard.
        engine: the engine's name.
        kind: cpu or cuda.
        devices: devices that it holds from start to end.
        requests: requests that it executes.
        start_seconds: estimated seconds until the engine answers (0 without requests: no engine is started).
        work_seconds: estimated seconds of executing.
        after: generation batches whose answers it judges; all their shards come before it.
    """

    stage: str
    batch: str
    shard: int
    engine: str
    kind: str
    devices: int
    requests: int
    start_seconds: float
    work_seconds: float
    after: frozenset[str] = frozenset()

    @property
    def seconds(self) -> float:
        """Estimated seconds that it holds its devices."""
        return self.start_seconds + self.work_seconds

    @property
    def device_seconds(self) -> float:
        """Estimated seconds times devices."""
        return self.seconds * self.devices


def billions_in_name(name: str) -> tuple[float, float] | None:
    """Return all and the active parameters (billions) that a model's name tells: `x-70B`, `x-135M`, `x-30B-A3B`."""
    number = r"(?<![A-Za-z0-9.])(A?)(\d+(?:\.\d+)?)([BM])(?![A-Za-z0-9])"
    sizes: dict[str, float] = {}
    for active, digits, unit in re.findall(number, name, re.IGNORECASE):
        sizes.setdefault(active.upper(), float(digits) / (1 if unit.upper() == "B" else 1000))
    if "" not in sizes:
        return None
    return sizes[""], sizes.get("A", sizes[""])


def answer_tokens(most: int, reasons: bool = False) -> float:
    """Return the assumed mean tokens of an answer that may have at most `most`; `reasons`: after some reasoning."""
    return min(float(most), REASONED_ANSWER if reasons else PLAIN_ANSWER)


def weights_bytes(entry: Mapping[str, Any], billions: float) -> float:
    """Return the size of an engine's weights: what its entry says, else by the number of parameters."""
    if entry.get("weights_gb"):
        return float(entry["weights_gb"]) * 1e9
    width = QUANTIZED_BYTES if entry["quantization"] else BYTES_PER_PARAMETER[entry["dtype"]]
    return billions * 1e9 * width


def pace_of(entry: Mapping[str, Any], kind: str, devices: int, billions: tuple[float, float], strict: bool) -> Pace:
    """Return the estimated pace of an engine.

    Args:
        entry: the engine's catalogue entry.
        kind: cpu or cuda.
        devices: GPUs of one load (not used for a CPU engine).
        billions: all and the active parameters.
        strict: whether the study asks for `determinism: strict`.
    """
    total, active = billions
    share = STRICT_SHARE[kind] if strict else 1.0
    if kind == "cpu":
        slower = MEASURED_BILLIONS / active
        start = CPU_START_SECONDS["eager" if entry["args"].get("enforce-eager", True) else "compiled"]
        return Pace(kind, 1, start, CPU_READ_RATE * slower, CPU_WRITE_RATE * slower * share, CPU_STREAM_RATE * slower)
    copies = int(entry["data_parallel"])
    gpus = devices / copies
    doublings = math.log2(gpus)
    speed = gpus * PARALLEL_SHARE**doublings
    size = weights_bytes(entry, total)
    start = GPU_START_SECONDS + GPU_START_SECONDS_PER_DOUBLING * doublings + size / GPU_LOAD_BYTES
    per_token = 2e9 * active
    written = min(GPU_WRITE_FLOPS / per_token, GPU_TEXTS_AT_A_TIME * GPU_MEMORY_BYTES / size)
    return Pace(
        kind="cuda",
        devices=devices,
        start_seconds=start,
        read_rate=copies * speed * GPU_READ_FLOPS / per_token,
        write_rate=copies * speed * written * share,
        stream_rate=speed * GPU_MEMORY_BYTES / (size * active / total),
    )


def work_seconds(cells: Iterable[CellWork], pace: Pace, shards: int = 1) -> float:
    """Return the estimated seconds of executing one of `shards` equal parts of these cells, without the start."""
    read = write = longest = 0.0
    for cell in cells:
        requests = cell.requests / shards
        # Shards are cut by request, so that the samples of a prompt go apart: each shard reads the prompt again.
        read += min(requests, cell.prompts) * cell.tokens_per_prompt / pace.read_rate
        write += requests * cell.answer_tokens / pace.write_rate
        if cell.requests:
            longest = max(longest, cell.most_tokens / pace.stream_rate)
    return max(read + write, longest)


def loads_of(
    config: Mapping[str, Any], work: Mapping[Cell, CellWork], paces: Mapping[str, Pace], batch: str, shards: int
) -> list[Load]:
    """Return the engine loads of a study under a `batch` and `shards`, generation first.

    Args:
        config: the validated study; its own `batch` and `shards` are not looked at.
        work: what is to be executed for every cell of generation and of judging.
        paces: the pace of every engine by its name.
        batch: cell, model or engine.
        shards: parts of a batch.
    """
    study = {**config, "batch": batch}
    generation, judging = generation_batches(study), judging_batches(study)
    batch_of = {cell: name for name, cells in generation.items() for cell in cells}
    loads: list[Load] = []
    for stage, batches in (("generate", generation), ("judge", judging)):
        for name, cells in batches.items():
            engine = name.split("/")[1]
            judged = (Cell(cell.model, cell.split) for cell in cells if stage == "judge" and cell.model != GOLD)
            after = frozenset(batch_of[cell] for cell in judged if cell in batch_of)  # recorded answers are there
            loads += _shards_of(stage, name, engine, [work[cell] for cell in cells], paces[engine], shards, after)
    return loads


def _shards_of(
    stage: str, name: str, engine: str, cells: Sequence[CellWork], pace: Pace, shards: int, after: frozenset[str]
) -> list[Load]:
    total = sum(cell.requests for cell in cells)
    seconds = work_seconds(cells, pace, shards)
    loads = []
    for shard in range(shards):
        requests = total // shards + (shard < total % shards)
        start, busy = (pace.start_seconds, seconds) if requests else (0.0, 0.0)
        loads.append(Load(stage, name, shard, engine, pace.kind, pace.devices, requests, start, busy, after))
    return loads
