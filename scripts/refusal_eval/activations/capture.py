"""Captures the activations that the store lacks: one start of the model, in a process of the engine environment."""

from __future__ import annotations

import logging
import os
import socket
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.activations.activation_store import ActivationStore
from refusal_eval.activations.asked import Asked
from refusal_eval.ask.pending import Pending
from refusal_eval.core.errors import UserError
from refusal_eval.engines.engine_program import EngineProgram, run_program
from refusal_eval.engines.load_plan import LoadPlan
from refusal_eval.engines.local_engine import LocalEngine

LOG = logging.getLogger(__name__)
PROGRAM = EngineProgram(
    Path(__file__).with_name("capture_program.py"), doing="capturing", done="captured", progress=("captured ",)
)
MOST_TOKENS = {"cpu": 2048, "cuda": 16384}  # of a padded batch
MOST_PROMPTS = {"cpu": 8, "cuda": 64}


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
    run_program(PROGRAM, job, plan, log, [(str(job["folder"]), str(job["dtype"]))])
    store.refresh()
    if left := store.missing(todo, layers):
        raise UserError(f"{len(left)} of {len(todo)} prompts were not captured, although {log} shows no error")
    return len(todo)


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
