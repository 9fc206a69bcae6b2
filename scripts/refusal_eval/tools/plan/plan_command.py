"""The cost of a study, the terms of its models and data, and what has not been verified."""

import dataclasses
import json
import logging
from typing import Annotated, Any

import typer

from refusal_eval.data.hub import token_is_set
from refusal_eval.program.study_file import DEMO, ROOT, Directory, StudyFile, load_config
from refusal_eval.program.terminal import show
from refusal_eval.tools.plan.disk_use import disk_needs, disks, read_free
from refusal_eval.tools.plan.plan_page import assumptions, plan_page
from refusal_eval.tools.plan.study_costs import Plan, plan_study
from refusal_eval.tools.plan.study_terms import never_verified, open_pins, terms_of, unverified
from refusal_eval.tools.plan.workload import ASSUMED, MISSING
from refusal_eval.workflow.answer_lengths import about_lengths

LOG = logging.getLogger(__name__)


def command(
    study: StudyFile = DEMO,
    directory: Directory = None,
    gpus: Annotated[
        int | None,
        typer.Option(min=1, help="GPUs that may be in use at one time.", show_default="as few as it runs on"),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="A line for every batch.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as JSON.")] = False,
) -> None:
    """Show what a study will cost before anything runs or is fetched.

    It shows requests, tokens, device-hours and disk, the terms of its models and data, and what nobody has verified.
    Nothing is run or written, and no GPU and no network is needed. Costs are estimates; the page lists its assumptions.
    Requests that the store has are left out if an earlier run's request files exist and are still valid. If the study,
    or a file that it reads, has changed since, requests are estimated, and the page says so.
    """
    config, file = load_config(study, directory, open_pins=True, warn=LOG.warning)
    plan = plan_study(config, file, ROOT, gpus)
    if warning := about_lengths(plan.study):
        LOG.warning("%s", warning)
    values = plan_values(plan)
    if as_json:
        typer.echo(json.dumps(values, indent=2))
    else:
        show(plan_page(plan, values, str(study), every))


def plan_values(plan: Plan) -> dict[str, Any]:
    """Return a plan as plain values."""
    study, needs, costs = plan.study, disk_needs(plan), plan.engines.to_dict("index")
    return {
        "study": study.name,
        "gpus": plan.gpus,
        "requests": plan.stages["requests"].to_dict(),
        "work": plan.stages.to_dict("index"),
        "counted_in_store": all(work.known == MISSING for work in plan.work.values()),
        "assumed": any(work.known == ASSUMED for work in plan.work.values()),
        "engines": {name: dataclasses.asdict(pace) | costs[name] for name, pace in plan.paces.items()},
        "batches": plan.batches.to_dict("records"),
        **{name: part.values for name, part in plan.parts.items()},
        "disk": {"needs": needs.to_dict("records"), "disks": disks(needs, read_free)},
        "lock": study.lock,
        "open_pins": open_pins(study),
        "terms": list(terms_of(study)),
        "hub_token": token_is_set(),
        "never_verified": never_verified(study),
        "unverified": unverified(study),
        "assumptions": " ".join(assumptions(plan).split()),
    }
