"""Computes the gradients that the store lacks: one start of the model, in a process of the engine environment."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.engines.engine_program import EngineProgram, run_program
from refusal_eval.engines.line_store import LineStore
from refusal_eval.engines.load_plan import LoadPlan
from refusal_eval.engines.local_engine import LocalEngine

LOG = logging.getLogger(__name__)
PROGRAM = EngineProgram(
    Path(__file__).with_name("gradient_program.py"),
    doing="computing gradients of",
    done="attributed",
    progress=("attributed ",),
)
ASKED = ("key", "token_ids", "own", "reply", "without")  # what the program reads of an item
MOST_TOKENS = {"cpu": 2048, "cuda": 16384}  # of a batch of points of one prompt


def gradient_store(store_dir: str | Path, engine_id: str) -> LineStore:
    """Return the store of the gradients of an engine."""
    return LineStore(store_dir, "gradients", engine_id, ("key", "score", "baseline", "values"), "gradients")


def gradients_missing(store: LineStore, file: Mapping[str, Any], plan: LoadPlan, log: Path) -> int:
    """Compute the gradients that the store lacks; return of how many prompts.

    Args:
        file: what is asked (see `make_gradient_items.py`).
        plan: how the engine is loaded, and until when.
        log: the file for what the program prints.

    Raises:
        UserError: if the program ends without having computed everything, or is ended because the time limit is reached
            or nothing comes; what it computed is in the store.
    """
    items = {item["key"]: item for item in file["items"] if item["key"]}
    lacking = store.missing(items)
    LOG.info("%d prompts; the store lacks %d", len(items), len(lacking))
    if not lacking:
        return 0
    engine, device = plan.engine, plan.device or "cpu"
    assert isinstance(engine, LocalEngine)
    folder = os.path.abspath(plan.load(log).folder or "")
    job = {
        **file["settings"],
        "folder": folder,
        "dtype": engine.dtype,
        "device": device,
        "gpus": plan.gpus,
        "trust_remote_code": engine.trust_remote_code,
        "out": os.path.abspath(store.new_file()),
        "most_tokens": MOST_TOKENS[device],
        "items": [{name: items[key][name] for name in ASKED if name in items[key]} for key in lacking],
    }
    run_program(PROGRAM, job, plan, log, [(folder, str(engine.dtype))])
    store.refresh()
    if left := store.missing(lacking):
        raise UserError(f"{len(left)} of {len(lacking)} prompts have no gradients, although {log} shows no error")
    return len(lacking)
