"""Capture the activations of one model on one split: what the store lacks is computed, in the engine environment."""

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.activations.activation_store import ActivationStore
from refusal_eval.activations.asked import asked_states
from refusal_eval.activations.capture import capture_missing, card
from refusal_eval.activations.model_facts import captured_facts, checked_layers
from refusal_eval.activations.tensor_files import write_states
from refusal_eval.ask.pending import Pending
from refusal_eval.ask.requests import RequestSettings, read_requests
from refusal_eval.ask.store import when_stored
from refusal_eval.config.kinds import CHANGES
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.core.slurm_jobs import job_end
from refusal_eval.core.time_limit import time_limit
from refusal_eval.engines.load_plan import LoadPlan
from refusal_eval.engines.loaded_change import loaded_changes
from refusal_eval.engines.running_jobs import only_capture
from refusal_eval.engines.stopping import end_with_parent


def main(
    requests_path: str,
    answers: str | None,
    engine: Mapping[str, Any],
    layers: Sequence[int] | None,
    highest: int | None,
    names: Mapping[str, str],
    plan: LoadPlan,
    gpus: int,
    output: str,
    log: Path,
) -> None:
    """Write the activations of one cell.

    Args:
        requests_path: the cell's requests, with the token ids of its prompts.
        answers: its answers, if their tokens are averaged.
        engine: identity file of the model's engine.
        layers: the layers; None for all.
        highest: the highest layer of the model that is named anywhere: one that does not exist is reported here,
            before the model is loaded.
        names: `model`, `split` and `positions`.
        gpus: the GPUs that this job got.

    Raises:
        UserError: for a model that cannot be captured, for layers that it does not have, for requests that were made
            for another engine, and if nothing can be captured; if the time limit is reached (what was captured is in
            the store); and if another job captures the same.
    """
    facts = captured_facts(engine)
    if highest is not None:
        checked_layers([highest], facts["model_layers"], names["model"])
    wanted = checked_layers(layers, facts["model_layers"], names["model"])
    requests = read_requests(requests_path)
    plan.refuse_other_engine([requests])
    asked = when_stored(lambda: asked_states(requests, names["positions"], answers, plan.store_dir))
    if not asked:
        raise UserError(f"no prompt of split {names['split']} fits the model {names['model']}, or none was answered")
    every = {request.prompt_id for request in requests.requests()}
    if left_out := len(every - {item.prompt_id for item in asked}):
        LOG.warning("%d prompts are too long for the model, or have no answer, and are left out", left_out)
    kinds = len({item.token_ids[-1] for item in asked})
    if names["positions"].startswith("prompt_token") and kinds > 1:
        LOG.warning("%s is not one token but %d: in some prompts it is their own text", names["positions"], kinds)
    store = ActivationStore(plan.store_dir, engine["engine_id"])
    if store.missing((item.key for item in asked), wanted):
        plan.refuse_too_few(gpus)
        request = Pending(next(requests.requests()), RequestSettings.of_header(requests.header))
        with only_capture(output) as look_again:
            look_again()
            store.refresh()  # a job of an earlier run may have ended meanwhile
            capture_missing(store, asked, wanted, facts["model_layers"], plan, request, log.with_suffix(".capture.log"))
    states, kind = store.states([item.key for item in asked], wanted)
    write_states(output, states, kind, card(facts, engine, asked, wanted, **names))
    LOG.info("%d prompts x %d layers x %d", *states.shape)


if snakemake := globals().get("snakemake"):
    started = time.monotonic()
    end_with_parent()
    start_log(snakemake)
    described = read_json(snakemake.input.engine)
    main(
        requests_path=snakemake.input.requests,
        answers=next(iter(snakemake.input.answers), None),
        engine=described,
        layers=snakemake.params.layers,
        highest=snakemake.params.highest,
        names={name: snakemake.wildcards[name] for name in ("model", "split", "positions")},
        plan=LoadPlan.of_study(
            config=snakemake.config,
            described=described,
            weights=[str(path) for path in snakemake.input.weights],
            root=Path(snakemake.scriptdir).parent,
            changes=loaded_changes({name: list(snakemake.input.get(name, [])) for name in CHANGES.names()}),
            limit=time_limit(
                snakemake.config["time_limit"], snakemake.resources.get("runtime"), job_end(os.environ), started
            ),
        ),
        gpus=int(snakemake.resources.get("gpu", 0)),
        output=snakemake.output[0],
        log=Path(snakemake.log[0]),
    )
