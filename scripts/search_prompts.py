"""Search for the prompts of one split, or of one shard: texts that the store lacks are written in the engine
environment."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json, write_json
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.core.slurm_jobs import job_end
from refusal_eval.core.time_limit import time_limit
from refusal_eval.engines.load_plan import LoadPlan
from refusal_eval.engines.running_jobs import only_capture
from refusal_eval.engines.stopping import end_with_parent
from refusal_eval.features.controlled.search_run import search_missing
from refusal_eval.features.controlled.search_store import SearchStore, items_of_load


def main(file: Mapping[str, Any], load: str, plans: Mapping[str, LoadPlan], gpus: int, output: str, log: Path) -> None:
    """Search for what the store lacks, and write the receipt.

    Args:
        file: what is searched for (see `make_search_items.py`).
        load: which part of it.
        plans: how the engines of `by` and `target` are loaded.
        gpus: the GPUs that this job got.

    Raises:
        UserError: for items that were made for other engines, for models on different devices, if the search fails or
            the time limit is reached (what was written is in the store), and if another job searches for the same.
    """
    for role, plan in plans.items():
        if file[role] != plan.engine_id:
            raise UserError(
                f"the search was prepared for engine {file[role]}, and `{role}` is {plan.engine_id}; run again"
            )
    if len({plan.device for plan in plans.values()}) > 1:
        raise UserError("`by` and `target` are loaded together, and their engines name different devices")
    items = items_of_load(file["items"], load)
    store = SearchStore(plans["target"].store_dir, file["target"])
    found = 0
    if store.missing(item["key"] for item in items):
        max(plans.values(), key=lambda plan: plan.gpus).refuse_too_few(gpus)
        with only_capture(output) as look_again:
            look_again()
            store.refresh()  # a job of an earlier run may have ended meanwhile
            found = search_missing(store, file["settings"], items, plans, log.with_suffix(".search.log"))
    write_json(output, {"texts": len(items), "written_now": found})
    LOG.info("%d texts, %d of them written now", len(items), found)


if snakemake := globals().get("snakemake"):
    started = time.monotonic()
    end_with_parent()
    start_log(snakemake)
    limit = time_limit(snakemake.config["time_limit"], snakemake.resources.get("runtime"), job_end(os.environ), started)
    main(
        file=read_json(snakemake.input.search),
        load=snakemake.wildcards.load,
        plans={
            role: LoadPlan.of_study(
                config=snakemake.config,
                described=read_json(snakemake.input[role]),
                weights=[str(path) for path in snakemake.input[f"{role}_weights"]],
                root=Path(snakemake.scriptdir).parent,
                limit=limit,
            )
            for role in ("by", "target")
        },
        gpus=int(snakemake.resources.get("gpu", 0)),
        output=snakemake.output[0],
        log=Path(snakemake.log[0]),
    )
