"""Compute the gradients of one attribution that the store lacks, in the engine environment."""

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
from refusal_eval.features.attributions.gradient_run import gradient_store, gradients_missing


def main(file: Mapping[str, Any], plan: LoadPlan, gpus: int, output: str, log: Path) -> None:
    """Compute what the store lacks, and write the receipt.

    Args:
        file: what is asked (see `make_gradient_items.py`).
        plan: how the engine is loaded.
        gpus: the GPUs that this job got.

    Raises:
        UserError: for items that were made for another engine, if the program fails or the time limit is reached (what
            was computed is in the store), and if another job computes the same.
    """
    if file["engine_id"] != plan.engine_id:
        raise UserError(f"gradients were prepared for engine {file['engine_id']}, not {plan.engine_id}; run again")
    keys = [item["key"] for item in file["items"] if item["key"]]
    store = gradient_store(plan.store_dir, file["engine_id"])
    computed = 0
    if store.missing(keys):
        plan.refuse_too_few(gpus)
        with only_capture(output) as look_again:
            look_again()
            store.refresh()  # a job of an earlier run may have ended meanwhile
            computed = gradients_missing(store, file, plan, log.with_suffix(".gradients.log"))
    write_json(output, {"prompts": len(keys), "computed_now": computed})
    LOG.info("%d prompts, %d of them computed now", len(keys), computed)


if snakemake := globals().get("snakemake"):
    started = time.monotonic()
    end_with_parent()
    start_log(snakemake)
    limit = time_limit(snakemake.config["time_limit"], snakemake.resources.get("runtime"), job_end(os.environ), started)
    main(
        file=read_json(snakemake.input.items_file),
        plan=LoadPlan.of_study(
            config=snakemake.config,
            described=read_json(snakemake.input.engine),
            weights=[str(path) for path in snakemake.input.weights],
            root=Path(snakemake.scriptdir).parent,
            limit=limit,
        ),
        gpus=int(snakemake.resources.get("gpu", 0)),
        output=snakemake.output[0],
        log=Path(snakemake.log[0]),
    )
