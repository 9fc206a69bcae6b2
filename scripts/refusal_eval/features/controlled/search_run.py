"""Searches for the texts that the store lacks: one start of both models, in a process of the engine environment."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.engines.engine_program import EngineProgram, run_program
from refusal_eval.engines.load_plan import LoadPlan
from refusal_eval.engines.local_engine import LocalEngine
from refusal_eval.features.controlled.search_store import SearchStore

LOG = logging.getLogger(__name__)
PROGRAM = EngineProgram(
    Path(__file__).with_name("controlled_program.py"),
    doing="searching",
    done="written",
    progress=("written ", "writing "),
)
MOST_TOKENS = {"cpu": 4096, "cuda": 65536}  # of a batch of candidates
MOST_LOGITS = {"cpu": 2**27, "cuda": 2**31}
ITEM_KEYS = ("key", "draw", "seed", "context", "before", "after", "refusal")


def search_missing(
    store: SearchStore,
    settings: Mapping[str, Any],
    items: Sequence[Mapping[str, Any]],
    plans: Mapping[str, LoadPlan],
    log: Path,
) -> int:
    """Search for the texts that the store lacks; return how many these were.

    Args:
        settings: of the search (`search_items.search_settings`).
        plans: how the engines of `by` and of `target` are loaded, and until when.
        log: the file for what the program prints.

    Raises:
        UserError: if the program ends without having written everything, or is ended because the time limit is reached
            or nothing comes; what it wrote is in the store.
    """
    lacking = set(store.missing(item["key"] for item in items))
    todo = [{name: item[name] for name in ITEM_KEYS} for item in items if item["key"] in lacking]
    LOG.info("%d texts; the store lacks %d", len(items), len(todo))
    if not todo:
        return 0
    models, trusted = {}, False
    for role, plan in plans.items():
        assert isinstance(plan.engine, LocalEngine)
        models[role] = {"folder": os.path.abspath(plan.load(log).folder or ""), "dtype": plan.engine.dtype}
        trusted |= plan.engine.trust_remote_code
    # The one that takes more devices says how many are leased; both models are put on these.
    plan = max(plans.values(), key=lambda plan: plan.gpus)
    device = plan.device or "cpu"
    job = {
        **settings,
        **models,
        "device": device,
        "gpus": plan.gpus,
        "trust_remote_code": trusted,
        "out": os.path.abspath(store.new_file()),
        "most_tokens": MOST_TOKENS[device],
        "most_logits": MOST_LOGITS[device],
        "items": todo,
    }
    loaded = {(str(model["folder"]), str(model["dtype"])) for model in models.values()}
    run_program(PROGRAM, job, plan, log, loaded)
    store.refresh()
    if left := store.missing(lacking):
        raise UserError(f"{len(left)} of {len(todo)} texts were not written, although {log} shows no error")
    return len(todo)
