"""Engine loads: which are done, which run, which failed and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json
from refusal_eval.study.batches import Cell, generation_batches, judging_batches
from refusal_eval.study.paths import Paths
from refusal_eval.tools.status.job_states import FAILED, Trouble, damaged, modified, shown
from refusal_eval.tools.status.log_text import at_work, clean, error_and_cause, progress, tail
from refusal_eval.workflow.execution_stage import engine_of

DONE = "done"
NOT_STARTED = "not started"
RUNNING, STARTING, STOPPED = "running", "starting", "stopped"
REJECTED = "rejected"
# What a cell is told that waits for several loads: the first of these that one of them is in.
GRAVEST = (FAILED, RUNNING, STARTING, STOPPED, NOT_STARTED, DONE)

# A job whose log and store were silent for so long is not running: servers log every ten seconds.
SILENCE = 120.0  # seconds
TIME_LIMIT = "the time limit is reached"  # how scripts/execute.py ends a load whose time is over: nothing went wrong


@dataclass(frozen=True)
class Load:
    """One engine load: a shard of a batch.

    Attributes:
        stage: `generate` or `judge`.
        name: `<batch>/<load>`, see `plan.load_names`.
        state: done, not started, starting, running, stopped (without an error, or at the time limit) or failed.
        trouble: what there is to tell of a load that is not done.
        rejections: why the engine rejected requests, by their keys.
        receipt: the receipt's path.
    """

    stage: str
    name: str
    state: str
    trouble: Trouble | None
    receipt: str
    rejections: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def damaged(self) -> bool:
        """Whether its receipt cannot be read."""
        return self.trouble is not None and self.trouble.log == self.receipt

    def rejection(self) -> Trouble | None:
        """Return what there is to tell of the requests that the engine rejected."""
        if not self.rejections:
            return None
        count = len(self.rejections)
        message = f"the engine rejected {count} request{'s' if count > 1 else ''}"
        return Trouble(self.stage, self.name, REJECTED, message, next(iter(self.rejections.values())), self.receipt)


def batches(config: Mapping[str, Any]) -> dict[str, dict[str, list[Cell]]]:
    """Return the cells of each batch by stage and name."""
    return {"generate": generation_batches(config), "judge": judging_batches(config)}


def engine_loads(config: Mapping[str, Any], now: float) -> dict[tuple[str, str], list[Load]]:
    """Return the engine loads of each (stage, batch), a load for each shard.

    Args:
        config: the validated study.
        now: the present time (seconds since 1970).
    """
    paths = Paths(config)
    grown = {name: _store_grown(paths, name) for name in config["engine_entries"]}
    return {
        (stage, batch): [
            _load(stage, f"{batch}/{Path(receipt).stem}", receipt, paths, now, grown[engine_of(batch)])
            for receipt in paths.receipts(stage, batch)
        ]
        for stage, of_stage in batches(config).items()
        for batch in of_stage
    }


def _load(stage: str, name: str, receipt: str, paths: Paths, now: float, store_grown: float) -> Load:
    try:
        return Load(stage, name, DONE, None, shown(receipt), _rejections(read_json(receipt)))
    except FileNotFoundError:
        pass
    except (OSError, UserError, KeyError, TypeError, AttributeError) as error:
        text = error if isinstance(error, UserError | OSError) else f"{receipt} is not a receipt"
        trouble = damaged(stage, name, receipt, UserError(f"{text}; delete it and run again"))
        return Load(stage, name, FAILED, trouble, shown(receipt))
    log = Path(f"{paths.logs}/{stage}/{name}.log")
    server_log = log.with_suffix(".server.log")
    written = modified(log)
    if written is None:
        return Load(stage, name, NOT_STARTED, None, shown(receipt))
    text = tail(log)
    cause: str | None = None
    if told := error_and_cause(text, tail(server_log)):
        message, cause = told
        state = STOPPED if message.startswith(TIME_LIMIT) else FAILED
    elif now - max(written, modified(server_log) or 0) > SILENCE:
        state = STOPPED
        message = f"ended without an error and without a receipt (killed?); the last it said: {progress(text)}"
    else:
        state = RUNNING if now - store_grown <= SILENCE or at_work(text) else STARTING
        message = progress(text)
    shown_server_log = shown(server_log) if server_log.exists() else None
    trouble = Trouble(stage, name, state, clean(message), cause, shown(log), shown_server_log)
    return Load(stage, name, state, trouble, shown(receipt))


def _rejections(receipt: Any) -> dict[str, str]:
    """Return the reason of each rejection by key.

    Raises:
        KeyError, TypeError, AttributeError: if it is not a receipt.
    """
    rows = {str(row["key"]): (row.get("status"), row.get("message")) for row in receipt["rejected"]}
    return {key: clean(f"HTTP {status}: {message}") for key, (status, message) in rows.items()}


def _store_grown(paths: Paths, engine: str) -> float:
    """Return when a store file of an engine was last written to (seconds since 1970; 0 when there is none)."""
    try:
        engine_id = str(read_json(paths.engine(engine))["engine_id"])
        files = list(Path(paths.store, engine_id).glob("*.jsonl"))
    except (OSError, UserError, KeyError, TypeError):
        return 0.0
    return max((modified(file) or 0.0 for file in files), default=0.0)
