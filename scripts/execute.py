"""Execute the requests of one batch that the store lacks: the script behind the rules `generate` and `judge`."""

import asyncio
import logging
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refusal_eval.engines.environment import engine_device, engine_python, gpus_needed
from refusal_eval.engines.process import end_with_parent
from refusal_eval.errors import UserError
from refusal_eval.execute import Outcome, Pending, execute, pending_requests, shard_keys
from refusal_eval.files import read_json, sha256_of, write_json
from refusal_eval.logs import start_log
from refusal_eval.requests import RequestFile, read_requests
from refusal_eval.store import StoreReader, StoreWriter
from refusal_eval.weights.manifest import manifest_folder

if TYPE_CHECKING:
    snakemake: Any

LOG = logging.getLogger(__name__)


def missing_keys(files: Sequence[RequestFile], store_dir: str, shard: int, shards: int) -> tuple[list[str], set[str]]:
    """Return all keys of this shard, and those of them that the store lacks."""
    keys = shard_keys(files, shard, shards)
    if not files:
        return keys, set()
    return keys, set(StoreReader(store_dir, files[0].header["engine_id"]).missing(keys))


def weights_folder(execution: dict[str, Any]) -> str:
    """Return the folder of the engine's weights.

    Fetched weights have a manifest: a missing or shortened file is named before an engine is started that it would
    stop, minutes later, with a message of its own.

    Raises:
        UserError: for a file that is not as it was fetched.
    """
    manifest = execution["manifest"]
    return execution["folder"] if manifest is None else str(manifest_folder(manifest))


async def run_engine(
    pending: list[Pending], engine_id: str, log: Path, job: str, execution: dict[str, Any]
) -> tuple[Outcome, dict[str, Any]]:
    """Start the engine, execute, stop it; return the outcome and what the receipt tells of the engine."""
    from refusal_eval.engines.vllm import VllmEngine

    determinism, in_flight = execution["determinism"], execution["in_flight"]
    engine = VllmEngine(
        entry=execution["entry"],
        folder=weights_folder(execution),
        python=execution["python"],
        device=execution["device"],
        determinism=determinism,
        in_flight=in_flight,
        log=log,
    )
    async with engine:
        serving = engine.serving_record()
        serving_id = sha256_of(serving)[:16]
        with StoreWriter(execution["store_dir"], engine_id, job) as writer:
            writer.describe(serving_id, serving)
            outcome = await execute(pending, engine, writer, serving_id, determinism, in_flight)
        counters = await engine.metrics()
    hits, queries = counters["prefix_cache_hits"], counters["prefix_cache_queries"]
    LOG.info(
        "the engine answered %d requests, %d prompt tokens (%.0f %% from its cache), %d generated tokens",
        counters["requests"],
        counters["prompt_tokens"],
        100 * hits / queries if queries else 0,
        counters["generated_tokens"],
    )
    return outcome, {"serving_id": serving_id, "serving": serving, "counters": counters}


def main(request_paths: Sequence[str], receipt: str, log: Path, gpus: int, execution: dict[str, Any]) -> None:
    """Execute a batch and write its receipt; without anything to do no engine is started."""
    started = time.monotonic()
    files = [read_requests(path) for path in request_paths]
    keys, missing = missing_keys(files, execution["store_dir"], execution["shard"], execution["shards"])
    LOG.info("%d requests in %d cells; the store lacks %d", len(keys), len(files), len(missing))
    report: dict[str, Any] = {"requests": len(keys), "cells": len(files), "gpus": gpus, "executed": 0, "rejected": []}
    if missing:
        if gpus < execution["gpus"]:
            raise UserError(
                f"this job got {gpus} GPUs and needs {execution['gpus']} (tensor x pipeline x data parallel). "
                f"Run snakemake with `--resources gpu={execution['gpus']}` or more."
            )
        engine_ids = {file.header["engine_id"] for file in files}
        if len(engine_ids) != 1:
            raise UserError(f"one batch asks {len(engine_ids)} different engines; this is a mistake in the workflow")
        pending = list(pending_requests(files, missing))
        server_log, job = log.with_suffix(".server.log"), Path(receipt).with_suffix("").name
        outcome, engine = asyncio.run(run_engine(pending, engine_ids.pop(), server_log, job, execution))
        if outcome.failed:
            raise UserError(
                f"{len(outcome.failed)} of {len(pending)} requests failed for a reason that may pass; "
                f"{outcome.executed} responses are in the store, and a rerun executes only the rest."
            )
        report |= {"executed": outcome.executed, "rejected": outcome.rejected, "engine": engine}
    report["seconds"] = round(time.monotonic() - started, 1)
    write_json(receipt, report)


def execution_of(
    config: dict[str, Any], engine: dict[str, Any], weights: Sequence[str], root: Path, shard: int
) -> dict[str, Any]:
    """Return how to execute. Read from the config and not from params: none of it may make a job run again."""
    entry = config["engine_entries"][engine["engine"]]
    device = engine_device(entry, root)
    return {
        "entry": entry,
        "folder": engine["folder"],
        "manifest": None if entry["weights"]["kind"] == "folder" else weights[0],
        "python": engine_python(entry, root),
        "device": device,
        "gpus": gpus_needed(entry, device),
        "determinism": config["determinism"],
        "in_flight": config["requests_in_flight"],
        "store_dir": config["store_dir"],
        "shard": shard,
        "shards": config["shards"],
    }


def _stop_on_sigterm(*_: object) -> None:
    raise SystemExit("stopped by SIGTERM")


if "snakemake" in globals():
    end_with_parent()
    signal.signal(signal.SIGTERM, _stop_on_sigterm)
    start_log(snakemake)
    main(
        request_paths=[str(path) for path in snakemake.input.requests],
        receipt=str(snakemake.output[0]),
        log=Path(snakemake.log[0]),
        gpus=int(snakemake.resources.get("gpu", 0)),
        execution=execution_of(
            config=snakemake.config,
            engine=read_json(snakemake.input.engine),
            weights=[str(path) for path in snakemake.input.weights],
            root=Path(snakemake.scriptdir).parent,
            shard=int(snakemake.wildcards.shard),
        ),
    )
