"""Execute the requests of one batch that the store lacks: the script behind the rules `generate` and `judge`."""

import asyncio
import contextlib
import math
import os
import resource
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refusal_eval.ask.pending import Pending, pending_requests, shard_keys
from refusal_eval.ask.requests import Request, read_requests
from refusal_eval.ask.store import StoreReader, StoreWriter
from refusal_eval.config.kinds import CHANGES, PROTOCOLS
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json, sha256_of, write_json
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.core.slurm_jobs import job_end
from refusal_eval.core.time_limit import time_limit, within
from refusal_eval.engines.load_plan import LoadPlan
from refusal_eval.engines.loaded_change import loaded_changes
from refusal_eval.engines.running_jobs import only_job
from refusal_eval.engines.stopping import end_with_parent, run_stoppable
from refusal_eval.judges.follow_ups import following
from refusal_eval.study.batches import shard_of, shards_of

if TYPE_CHECKING:
    from refusal_eval.engines.engine_base import EngineLoad, RunningEngine
    from refusal_eval.engines.execution import Outcome

METRICS_SECONDS = 5.0  # at the end, when a scheduler may be waiting for this job to be gone


async def run_engine(
    pending: list[Pending],
    store: StoreReader,
    log: Path,
    job: str,
    plan: LoadPlan,
    most_failed: int,
    look_again: Callable[[], None],
    keys: Iterable[str] = (),
) -> tuple["Outcome", dict[str, Any]]:
    """Start the engine, execute, stop it; return the outcome and what the receipt tells of the engine.

    `look_again` is called once the engine is ready (see `only_job`); `keys` are those of all requests. What it counted
    of its models' changes is kept in the store, also of a load that is stopped: the next one may see too little.
    """
    # Here, because a job that finds everything in the store should end at once.
    from refusal_eval.engines.execution import Execution
    from refusal_eval.engines.suspects import Suspects

    started, load = time.monotonic(), plan.load(log, pending)
    async with plan.engine.running(load) as engine:
        healthy = time.monotonic()
        await asyncio.to_thread(look_again)
        for unchanged in (plan.unchanged_folder, *(change.refuse_changed for change in load.changes)):
            await asyncio.to_thread(unchanged)  # while the engine loaded
        probe = dict[str, Any]()
        for change in load.changes:
            probe |= await change.probe(engine, pending, plan.limit)
        before = await quick_counters(engine) if probe else {}
        serving = engine.serving_record()
        serving_id = sha256_of(serving)[:16]
        writer = StoreWriter(plan.store_dir, store.folder.name, job)
        try:
            with writer:
                writer.describe(serving_id, serving)
                seeded = plan.determinism != "free"
                look, suspects = reasoning_check(plan), Suspects(log.with_suffix(".suspects.json"))
                work = Execution(
                    engine,
                    writer,
                    store,
                    serving_id,
                    plan.in_flight,
                    seeded,
                    most_failed,
                    plan.limit,
                    look,
                    suspects,
                    keys,
                )
                outcome = await work.run(pending)
        finally:
            counters = await last_counters(engine, before)
            await keep_reports(engine, load, writer.path)
            worked = time.monotonic()
    seconds = {"start": round(healthy - started, 1), "work": round(worked - healthy, 1)}
    of_engine = {"serving_id": serving_id, "serving": serving, "counters": counters, "seconds": seconds}
    return outcome, of_engine | probe | of_changes(plan, {*store.read_from, writer.path})


def reasoning_check(plan: LoadPlan) -> Callable[[str, Request, Mapping[str, Any]], None] | None:
    """Return what looks at the first responses of models; None where none is to be looked at."""
    if not plan.reasoning:
        return None
    from refusal_eval.ask.answers import AnswerReader
    from refusal_eval.ask.hidden_marks import added_tokens
    from refusal_eval.ask.reasoning_check import ReasoningCheck

    folder, trust = plan.tokenizer_folder, getattr(plan.engine, "trust_remote_code", False)
    readers = {model: AnswerReader(folder, entry, trust) for model, entry in plan.reasoning.items()}
    return ReasoningCheck(readers, added_tokens(folder) if folder is not None else None).look


async def quick_counters(engine: "RunningEngine") -> dict[str, float]:
    """Return what the server counted so far.

    Missing metrics never block a load; the log says why they are missing. Engines elsewhere have none.
    """
    try:
        return await within(METRICS_SECONDS, engine.metrics())
    except (ConnectionError, TimeoutError) as error:
        LOG.warning("the engine's counters are not known: %s", error)
        return {}


async def last_counters(engine: "RunningEngine", before: Mapping[str, float]) -> dict[str, float]:
    """Return what the server counted since then, and say it: a prompt that K samples share should cost one prefill."""
    counters = {name: value - before.get(name, 0) for name, value in (await quick_counters(engine)).items()}
    if not counters:
        return {}
    hits, queries = counters["prefix_cache_hits"], counters["prefix_cache_queries"]
    LOG.info(
        "the engine answered %d requests, %d prompt tokens (%.0f %% from its cache), %d generated tokens",
        counters["requests"],
        counters["prompt_tokens"],
        100 * hits / queries if queries else 0,
        counters["generated_tokens"],
    )
    return counters


async def keep_reports(engine: "RunningEngine", load: "EngineLoad", store_file: Path) -> None:
    """Keep, with the responses of a load, what its engine counted of the changes of its models."""
    for change in load.changes:
        try:
            change.keep(await within(METRICS_SECONDS, engine.report(change)), store_file)
        except (ConnectionError, TimeoutError, ValueError) as error:
            LOG.warning("%s is not known: %s", change.reported, error)


def of_changes(plan: LoadPlan, store_files: Collection[Path]) -> dict[str, Any]:
    """Return what a receipt says of the changes in the loads that wrote these files of the store."""
    return {key: value for change in plan.changes for key, value in change.receipt(store_files).items()}


def main(request_paths: Sequence[str], receipt: str, log: Path, gpus: int, plan: LoadPlan, attempt: int = 1) -> None:
    """Execute a batch and write its receipt; without anything to do no engine is started.

    Args:
        gpus: what the job was given.
        plan: how to load and ask the engine.
        attempt: which try of one run this is: a later one follows by itself and takes no answers as they are.

    Raises:
        UserError: if requests were made for another engine, if anything is left to be executed, and if the answers are
            not those of the changed model (see `LoadedChange.accept`); what was answered is in the store.
    """
    started = time.monotonic()
    files = [read_requests(path) for path in request_paths]
    part = plan.shard, plan.shards
    keys = shard_keys(files, *part)
    requests = len(keys)  # of each prompt the first turn: more is not known before
    pending: list[Pending] = []
    if files:
        plan.refuse_other_engine(files)
        store = StoreReader(plan.store_dir, plan.engine_id)
        pending = pending_requests(files, store, plan.tokenizer_folder, *part, follow=following)
    LOG.info("%d requests in %d cells; the store lacks %d", requests, len(files), len(pending))
    report: dict[str, Any] = {"requests": requests, "cells": len(files), "gpus": gpus, "executed": 0, "rejected": []}
    if pending:
        plan.refuse_too_few(gpus)
        server_log, job = log.with_suffix(".server.log"), Path(receipt).with_suffix("").name
        most = most_failures(plan.failure_limit, requests)
        with only_job(receipt, request_paths, *part) as look_again:
            if store.refresh():  # a job of an earlier run may have ended meanwhile
                del pending  # a large batch fills gigabytes
                pending = pending_requests(files, store, plan.tokenizer_folder, *part, follow=following)
            if pending:
                with StoreWriter(plan.store_dir, store.folder.name, job) as writer:
                    writer.refuse_full()  # or this is known after the engine's start
                load = run_engine(pending, store, server_log, job, plan, most, look_again, keys)
                outcome, engine = run_stoppable(load)
                refuse_incomplete(outcome)
                for change in plan.changes:
                    change.accept(engine, log, by_the_user=False)
                report |= {"executed": outcome.executed, "rejected": outcome.rejected, "engine": engine}
    if files and not pending and (found := of_changes(plan, store.read_from)):
        for change in plan.changes:
            change.accept(found, log, by_the_user=attempt == 1)
        report["engine"] = found
    report["seconds"] = round(time.monotonic() - started, 1)
    write_json(receipt, report)


def most_failures(share: float, requests: int) -> int:
    """Return how many requests of a batch may fail: the study's share of them.

    Rounded up, so that of a few requests a single one that the engine refuses does not block the batch for ever.
    """
    return math.ceil(share * requests)


def refuse_incomplete(outcome: "Outcome") -> None:
    """Raise `UserError` if a batch is not complete: the job must fail, so that the next run goes on."""
    kept = f"{outcome.executed} responses were added to the store, and the next run executes only the rest."
    if outcome.left:
        raise UserError(f"the time limit is reached with {outcome.left} requests left. {kept}")
    if outcome.failed:
        raise UserError(f"{len(outcome.failed)} requests failed for a reason that may pass. {kept}")


def reasoning_models(config: Mapping[str, Any], engine: str) -> dict[str, Any]:
    """Return the `reasoning` of an engine's models: its tokenizer need not know the marks of others.

    A model without one that is judged whole, as all are under some protocols, is left out.
    """
    whole = PROTOCOLS.get(config["protocol"]).judges_whole
    return {
        name: entry["reasoning"]
        for name, entry in config["model_entries"].items()
        if entry["engine"] == engine and (entry["reasoning"] is not None or not (whole or entry["judged_whole"]))
    }


def allow_many_connections() -> None:
    """Raise this process's own limit of open files as far as the system allows: each request in flight takes one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if snakemake := globals().get("snakemake"):
    started = time.monotonic()
    end_with_parent()
    start_log(snakemake)
    allow_many_connections()
    runtime = snakemake.resources.get("runtime")
    config, described = snakemake.config, read_json(snakemake.input.engine)
    main(
        request_paths=[str(path) for path in snakemake.input.requests],
        receipt=str(snakemake.output[0]),
        log=Path(snakemake.log[0]),
        gpus=int(snakemake.resources.get("gpu", 0)),
        plan=LoadPlan.of_study(
            config=config,
            described=described,
            weights=[str(path) for path in snakemake.input.weights],
            root=Path(snakemake.scriptdir).parent,
            shard=shard_of(snakemake.wildcards.load),
            shards=shards_of(snakemake.wildcards.load),
            changes=loaded_changes({name: list(snakemake.input.get(name, [])) for name in CHANGES.names()}),
            reasoning=reasoning_models(config, described["engine"]) if snakemake.rule.startswith("generate") else {},
            limit=time_limit(config["time_limit"], runtime, job_end(os.environ), started),
        ),
        attempt=int(snakemake.resources.get("attempt", 1)),
    )
