"""Runs a program of ours in the engine environment, on leased devices: what no server computes."""

from __future__ import annotations

import logging
import math
import os
import shutil
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import write_json
from refusal_eval.core.memory import count_memory_kills, lack_of_memory, main_memory
from refusal_eval.core.time_limit import TimeLimit
from refusal_eval.engines.devices.device_pool import LOCKED_CUDA, OLDEST_CAPABILITY
from refusal_eval.engines.devices.lease import Lease, lease_devices
from refusal_eval.engines.load_plan import LoadPlan
from refusal_eval.engines.local_engine import LocalEngine
from refusal_eval.engines.private_folder import make_private_folder
from refusal_eval.engines.server import server_environment
from refusal_eval.engines.server_process import ServerProcess
from refusal_eval.engines.server_records import ServerRecord, remove_orphans
from refusal_eval.weights.tensors import read_tensors

LOG = logging.getLogger(__name__)
POLL_SECONDS = 0.2
MEMORY_FACTOR = {"float32": 1.2, "float16": 1.3, "bfloat16": 1.3}  # on a CPU, in sizes of the loaded weights
BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


@dataclass(frozen=True)
class EngineProgram:
    """A program that takes a job as JSON, and keeps what it has done piece by piece."""

    path: Path
    doing: str  # what it does, in messages: `capturing`
    done: str  # what it did with a piece: `captured`
    progress: tuple[str, ...]  # what begins a line that says that it works; the first one's lines are logged


def run_program(
    program: EngineProgram, job: Mapping[str, Any], plan: LoadPlan, log: Path, weights: Collection[tuple[str, str]]
) -> None:
    """Run a program on a job, on leased devices; it ends with this process.

    Args:
        job: `device`, and what the program reads besides.
        plan: how the engine is loaded, and until when; of its devices all are leased.
        log: the file for what the program prints.
        weights: the folder and the number format of each model that it loads.

    Raises:
        UserError: if the program fails, if it is ended because the time limit is reached or nothing comes, and if the
            weights do not fit the memory.
    """
    for line in remove_orphans():
        LOG.warning("orphans of a killed run: %s", line)
    if not Path(plan.python).is_file():
        raise UserError(f"there is no engine environment at {plan.python}: run `make setup`")
    if job["device"] == "cpu":
        check_memory(weights)
    # What an environment of the user's own was built for is not known here.
    oldest = 0.0 if getattr(plan.engine, "python", None) else OLDEST_CAPABILITY[LOCKED_CUDA]
    private = make_private_folder()
    process: ServerProcess | None = None
    record: ServerRecord | None = None
    lease, killed_before = Lease(), count_memory_kills()
    try:
        lease = lease_devices(plan.gpus, os.environ, plan.limit.stop if plan.limit else None, oldest)
        plan.unchanged_folder()  # while it waited for devices
        job_file = Path(private, "job.json")
        write_json(job_file, dict(job))
        environment = server_environment(plan.determinism, plan.device, 1, plan.python)
        environment |= {"TMPDIR": private} | lease.environment()
        process = ServerProcess([plan.python, "-P", str(program.path), str(job_file)], environment, log, lease.files)
        lease.hand_to(process.pid)
        record = ServerRecord(process, private)
        LOG.info("%s %d prompts on %s", program.doing, len(job["items"]), job["device"])
        LOG.info("the model's output goes to %s", log)
        assert isinstance(plan.engine, LocalEngine)
        code = _watched(program, process, record, log, plan.engine, plan.limit)
        if code != 0:
            raise UserError(
                f"{program.doing} stopped (exit code {code}); what was {program.done} is kept, and the next run goes "
                f"on. {lack_of_memory(killed_before)}Its last lines, from {log}:\n{process.last_lines()}"
            )
    finally:
        if process is not None:
            process.stop()
        lease.release()
        shutil.rmtree(private, ignore_errors=True)
        if record is not None:
            record.remove()


def _watched(
    program: EngineProgram,
    process: ServerProcess,
    record: ServerRecord,
    log: Path,
    engine: LocalEngine,
    limit: TimeLimit | None,
) -> int:
    """Return the exit code of a program when it has ended; its lines of progress go to our log.

    Raises:
        UserError: when the time limit is reached, and where its device counts as hanging: no line of progress came for
            `stall_timeout` seconds, after the `start_timeout` that loading may take.
    """
    kept = f"what was {program.done} is kept, and the next run goes on"
    said, patience = "", float(engine.start_timeout + engine.stall_timeout)
    silent_since = time.monotonic()
    with open(log, encoding="utf-8", errors="replace") as lines:
        while True:
            code = process.exit_code()
            record.update()
            said += lines.read()
            *whole, said = said.split("\n")
            for line in whole:
                if line.startswith(program.progress):
                    silent_since, patience = time.monotonic(), float(engine.stall_timeout)
                if line.startswith(program.progress[0]):
                    LOG.info("%s", line)
            if code is not None:
                return code
            if limit and limit.stop_is_over():
                raise UserError(f"the time limit is reached; {kept}")
            if time.monotonic() - silent_since > patience:
                raise UserError(
                    f"nothing was {program.done} for {patience:g} s, which is what `stall_timeout` allows (with "
                    f"`start_timeout` at the start); {kept}. Its last lines, from {log}:\n{process.last_lines()}"
                )
            time.sleep(POLL_SECONDS)


def check_memory(weights: Collection[tuple[str, str]]) -> None:
    """Raise `UserError` if weights (folder and number format) and what is computed with them do not fit the memory."""
    needed = sum(loaded_size(folder, dtype) * MEMORY_FACTOR[dtype] for folder, dtype in weights)
    _, available = main_memory()
    if needed > available:
        formats = " and ".join(dict.fromkeys(dtype for _, dtype in weights))
        raise UserError(
            f"too little memory: the model takes {needed / 2**30:.1f} GiB in {formats}, and this job may take "
            f"{available / 2**30:.1f} GiB. Close other programs, or take a smaller model."
        )


def loaded_size(folder: str | Path, dtype: str) -> int:
    """Return the bytes of the weights of a model folder in a number format, from the headers of its files.

    Args:
        dtype: a key of `BYTES`.

    Raises:
        UserError: if a file is damaged.
    """
    tensors = (tensor for path in Path(folder).glob("*.safetensors") for tensor in read_tensors(path).values())
    return sum(math.prod(tensor.shape) for tensor in tensors) * BYTES[dtype]
