"""What a study will cost, on which terms its models and data may be used, and what of it nobody has verified."""

import dataclasses
import json
import os
from typing import Annotated, Any

import typer

from refusal_eval.tools.check.machine_checks import read_free
from refusal_eval.tools.check.network_checks import has_token
from refusal_eval.tools.plan.disk_use import disk_needs, disks
from refusal_eval.tools.plan.plan_page import (
    assumption_lines,
    batch_lines,
    disk_lines,
    engine_lines,
    head,
    work_lines,
)
from refusal_eval.tools.plan.study_costs import STAGES, Plan, plan_study
from refusal_eval.tools.plan.study_terms import (
    licence_lines,
    never_verified,
    open_pins,
    pin_lines,
    terms_of,
    unverified,
    unverified_lines,
)
from refusal_eval.tools.plan.workload import ASSUMED, MISSING
from refusal_eval.tools.study_file import DEMO, ROOT, Directory, StudyFile, load_config


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

    Requests, tokens, device-hours and disk; on which terms its models and data may be used; and what of it nobody has
    verified. Nothing is run and nothing is written; no GPU and no network is needed. Costs are estimates, and the page
    says what they rest on. Requests that the store has already are left out where request files of an earlier run are
    there that the next run would leave as they are. Where the study, or a file that it reads, has changed since,
    requests are estimated again, and the page says so.
    """
    config, file = load_config(study, directory, open_pins=True)
    plan = plan_study(config, file, ROOT, gpus)
    typer.echo(json.dumps(plan_json(plan), indent=2) if as_json else plan_page(plan, str(study), every))


def plan_page(plan: Plan, study_file: str, every: bool) -> str:
    """Return a plan as text."""
    needs, config = disk_needs(plan), plan.config
    parts = [
        head(plan),
        pin_lines(open_pins(config), study_file, config.get("lock")),
        work_lines(plan, study_file),
        engine_lines(plan),
        batch_lines(plan) if every else [],
        disk_lines(needs, disks(needs, read_free)),
        licence_lines(list(terms_of(config)), has_token(os.environ)),
        unverified_lines(config),
        assumption_lines(plan),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part)


def plan_json(plan: Plan) -> dict[str, Any]:
    """Return a plan as plain values."""
    config, needs = plan.config, disk_needs(plan)
    sums = {stage: plan.of_stage(stage) for stage in STAGES}
    costs = {cost.name: dataclasses.asdict(cost) for cost in plan.engines}
    return {
        "study": config["study"],
        "gpus": plan.gpus,
        "requests": {stage: of_stage.requests for stage, of_stage in sums.items()},
        "work": {stage: dataclasses.asdict(of_stage) for stage, of_stage in sums.items()},
        "counted_in_store": all(work.known == MISSING for work in plan.work.values()),
        "assumed": any(work.known == ASSUMED for work in plan.work.values()),
        "engines": {
            name: {**dataclasses.asdict(pace), **costs[name], "size": plan.sizes[name]}
            for name, pace in plan.paces.items()
        },
        "batches": [dataclasses.asdict(batch) for batch in plan.batches],
        "disk": {
            "needs": [dataclasses.asdict(need) for need in needs],
            "disks": [{**dataclasses.asdict(disk), "verdict": disk.verdict} for disk in disks(needs, read_free)],
        },
        "lock": config.get("lock"),
        "open_pins": [pin._asdict() for pin in open_pins(config)],
        "terms": [{**dataclasses.asdict(one), "non_commercial": one.non_commercial} for one in terms_of(config)],
        "hub_token": has_token(os.environ),
        "never_verified": never_verified(config),
        "unverified": unverified(config),
        "assumptions": " ".join(line.strip() for line in assumption_lines(plan)[1:]),
    }
