"""Captures the activations that the store lacks: one start of the model, in a process of the engine environment."""

from __future__ import annotations

import logging
import math
import os
import shutil
import socket
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.activations.activation_store import ActivationStore
from refusal_eval.activations.asked import Asked
from refusal_eval.ask.pending import Pending
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
PROGRAM = Path(__file__).with_name("capture_program.py")
MOST_TOKENS = {"cpu": 2048, "cuda": 16384}  # of a padded batch
MOST_PROMPTS = {"cpu": 8, "cuda": 64}
POLL_SECONDS = 0.2
MEMORY_FACTOR = {"float32": 1.2, "float16": 1.3, "bfloat16": 1.3}  # on a CPU, in sizes of the loaded weights
BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


def capture_missing(
    store: ActivationStore,
    asked: Sequence[Asked],
    layers: Sequence[int],
    depth: int,
    plan: LoadPlan,
    request: Pending,
    log: Path,
) -> int:
    """Compute what the store lacks, and take it in; return of how many prompts.

    Args:
        store: the store, of the plan's engine.
        depth: the number of the model's layers.
        plan: how the engine is loaded, and until when; of its devices all are leased.
        request: one of the cell's, which says what of the model is changed.

    Raises:
        UserError: if the program ends without having captured everything, or is ended because the time limit is reached
            or nothing comes; what it captured is in the store.
    """
    lacking = set(store.missing((item.key for item in asked), layers))
    todo = {item.key: item for item in asked if item.key in lacking}
    LOG.info("%d prompts, %d layers; the store lacks %d", len(asked), len(layers), len(todo))
    if not todo:
        return 0
    device, engine, load = plan.device or "cpu", plan.engine, plan.load(log, [request])
    assert isinstance(engine, LocalEngine)
    # The change of the residual stream alone: a model with another one is not captured.
    steered = next((getattr(change, "one") for change in load.changes if change.name == "intervention"), None)  # noqa: B009
    job = {
        "folder": os.path.abspath(load.folder),
        "intervention": steered and {"file": steered.file, "sha256": steered.sha256},
        "dtype": engine.dtype,
        "device": device,
        "gpus": plan.gpus,
        "trust_remote_code": engine.trust_remote_code,
        "layers": list(layers),
        "model_layers": depth,
        "out": os.path.abspath(store.folder),
        "writer": f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}",
        "most_tokens": MOST_TOKENS[device],
        "most_prompts": MOST_PROMPTS[device],
        "metadata": {"version": 1},
        "items": [{"key": item.key, "token_ids": list(item.token_ids), "first": item.first} for item in todo.values()],
    }
    _run(job, plan, log)
    store.refresh()
    if left := store.missing(todo, layers):
        raise UserError(f"{len(left)} of {len(todo)} prompts were not captured, although {log} shows no error")
    return len(todo)


def _run(job: Mapping[str, Any], plan: LoadPlan, log: Path) -> None:
    """Run the program on a job, on leased devices; it ends with this process."""
    for line in remove_orphans():
        LOG.warning("orphans of a killed run: %s", line)
    if not Path(plan.python).is_file():
        raise UserError(f"there is no engine environment at {plan.python}: run `make setup`")
    if job["device"] == "cpu":
        _check_memory(str(job["folder"]), str(job["dtype"]))
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
        process = ServerProcess([plan.python, "-P", str(PROGRAM), str(job_file)], environment, log, lease.files)
        lease.hand_to(process.pid)
        record = ServerRecord(process, private)
        LOG.info("capturing %d prompts on %s; the model's output goes to %s", len(job["items"]), job["device"], log)
        assert isinstance(plan.engine, LocalEngine)
        code = _watched(process, record, log, plan.engine, plan.limit)
        if code != 0:
            raise UserError(
                f"capturing stopped (exit code {code}); what was captured is kept, and the next run goes on. "
                f"{lack_of_memory(killed_before)}Its last lines, from {log}:\n{process.last_lines()}"
            )
    finally:
        if process is not None:
            process.stop()
        lease.release()
        shutil.rmtree(private, ignore_errors=True)
        if record is not None:
            record.remove()


def _watched(
    process: ServerProcess, record: ServerRecord, log: Path, engine: LocalEngine, limit: TimeLimit | None
) -> int:
    """Return the exit code of a program when it has ended; its lines of progress go to our log.

    Raises:
        UserError: when the time limit is reached, and where its device counts as hanging: no line of progress came for
            `stall_timeout` seconds, after the `start_timeout` that loading may take.
    """
    said, patience = "", float(engine.start_timeout + engine.stall_timeout)
    silent_since = time.monotonic()
    with open(log, encoding="utf-8", errors="replace") as lines:
        while True:
            code = process.exit_code()
            record.update()
            said += lines.read()
            *whole, said = said.split("\n")
            for line in whole:
                if line.startswith("captured "):
                    LOG.info("%s", line)
                    silent_since, patience = time.monotonic(), float(engine.stall_timeout)
            if code is not None:
                return code
            if limit and limit.stop_is_over():
                raise UserError("the time limit is reached; what was captured is kept, and the next run goes on")
            if time.monotonic() - silent_since > patience:
                raise UserError(
                    f"nothing was captured for {patience:g} s, which is what `stall_timeout` allows (with "
                    f"`start_timeout` at the start); what was captured is kept, and the next run goes on. Its last "
                    f"lines, from {log}:\n{process.last_lines()}"
                )
            time.sleep(POLL_SECONDS)


def _check_memory(folder: str, dtype: str) -> None:
    """Raise `UserError` if the weights in a number format, and what is computed with them, do not fit the memory."""
    needed = loaded_size(folder, dtype) * MEMORY_FACTOR[dtype]
    _, available = main_memory()
    if needed > available:
        raise UserError(
            f"too little memory: the model takes {needed / 2**30:.1f} GiB in {dtype}, and this job may take "
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


def card(
    facts: Mapping[str, Any], engine: Mapping[str, Any], asked: Sequence[Asked], layers: Sequence[int], **names: Any
) -> dict[str, Any]:
    """Return what a file of activations says of itself.

    Args:
        facts: of the model (`model_facts`).
        engine: identity file of its engine.
        asked: what the rows are.
        layers: what the columns are.
        names: model, split and positions.
    """
    return {
        "version": 1,
        **names,
        **facts,
        "engine_id": engine["engine_id"],
        "dtype": engine["identity"]["dtype"],
        "layers": list(layers),
        "prompts": [item.prompt_id for item in asked],
        "samples": [item.sample for item in asked],
        "keys": [item.key for item in asked],
    }
