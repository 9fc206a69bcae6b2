"""The cost of executing requests: an engine's estimated speed, by its size and devices.

An estimate does not promise a finish time. Each number is marked as measured or merely assumed.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from refusal_eval.weights.engine_size import weights_bytes

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

# -------------------------------------------- measured on the demo's store: 1,253 responses
STORED_BYTES, STORED_BYTES_PER_TOKEN = 330, 16  # with its place in the index; ids above 100,000 are longer

MISSING, COUNTED, ASSUMED = "missing in the store", "prompts x K", "assumed prompts x K"


@dataclass(frozen=True)
class CellWork:
    """The work to execute for one cell."""

    requests: int  # how many requests
    prompts: int  # how many different prompts they have; samples that share a prompt share its reading
    tokens_per_prompt: float  # mean tokens of a prompt that are not in the cache, without what all prompts begin with
    answer_tokens: float  # mean tokens of an answer
    most_tokens: int  # the most tokens of an answer
    known: str = COUNTED  # how the number of requests is known: MISSING, COUNTED or ASSUMED
    stored: int = 0  # responses that the store has already (only where MISSING says that it was looked into)
    rejected: int = 0  # requests that the engine rejected: they have no response, and no engine is started for them
    outdated: bool = False  # whether an earlier run left requests of this cell that no longer hold, and so do not count
    longer: float = 0.0  # by how many tokens a prompt is longer if the answer that it holds takes all that it may have


@dataclass(frozen=True)
class Pace:
    """How fast one load of an engine is."""

    kind: str  # cpu, cuda or elsewhere
    devices: int  # GPUs of one load; a CPU engine takes the whole machine, which counts as one device
    start_seconds: float  # from the start of the server until it answers
    read_rate: float  # prompt tokens/s
    write_rate: float  # generated tokens/s with many requests at once
    stream_rate: float  # generated tokens/s of one request
    weights: float = 0.0  # bytes of its weights
    active: float = 0.0  # billions of parameters that a token passes
    size: str = "computes elsewhere"  # in words, how many parameters it has and how that is known


ELSEWHERE = Pace("elsewhere", 0, 0.0, math.inf, math.inf, math.inf)  # somebody's server: no device of ours


def answer_tokens(most: int, reasons: bool = False) -> float:
    """Return the assumed mean tokens of an answer limited to `most`; `reasons` if it follows reasoning."""
    return min(float(most), REASONED_ANSWER if reasons else PLAIN_ANSWER)


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
        eager = entry.get("args", {}).get("enforce-eager", True)  # engines that write no text have no `args`
        start = CPU_START_SECONDS["eager" if eager else "compiled"]
        return Pace(kind, 1, start, CPU_READ_RATE * slower, CPU_WRITE_RATE * slower * share, CPU_STREAM_RATE * slower)
    copies = int(entry.get("data_parallel", 1))
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


def stored_bytes(requests: float, tokens: float) -> float:
    """Return the bytes that these responses take in the store."""
    return requests * STORED_BYTES + tokens * STORED_BYTES_PER_TOKEN


def work_seconds(cells: Iterable[CellWork], pace: Pace, shards: int = 1, longest: bool = False) -> float:
    """Return the estimated seconds of executing one of `shards` equal parts of these cells, without the start.

    With `longest` all answers take all the tokens that they may have, and judges then read these.
    """
    read = write = stream = 0.0
    for cell in cells:
        requests, tokens, prompt = cell.requests / shards, cell.answer_tokens, cell.tokens_per_prompt
        if longest:
            tokens, prompt = cell.most_tokens, prompt + cell.longer
        # Shards are cut by request, so that the samples of a prompt go apart: each shard reads the prompt again.
        read += min(requests, cell.prompts) * prompt / pace.read_rate
        write += requests * tokens / pace.write_rate
        if cell.requests:
            stream = max(stream, cell.most_tokens / pace.stream_rate)
    return max(read + write, stream)
