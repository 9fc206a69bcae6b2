"""The plan of a study as a page of text. Its sentences are in the template; here is what its tables are made of."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from refusal_eval.core.files import size_text
from refusal_eval.program.page_lines import fill_lines, group_by, many, table
from refusal_eval.program.text_templates import render_template
from refusal_eval.study.batches import Cell
from refusal_eval.tools.plan import study_terms, workload, workload_files
from refusal_eval.tools.plan.study_costs import COSTS, STAGES, Plan
from refusal_eval.tools.plan.workload import ELSEWHERE

WHAT_IS_OPEN = {"revision": "the commit", "sha256": "the SHA-256"}
MANY_TOKENS = 1e6  # from here on a column counts them in millions
AMOUNTS = ["loads", "tokens_out", "device_hours", "most_device_hours"]
TITLES = {"asked": "requests", "stored": "in store", "requests": "to execute", "tokens_in": "tokens in"}
TITLES |= {"tokens_out": "tokens out", "most_tokens_out": "at most"}
TITLES |= {"device_hours": "device-hours", "most_device_hours": "at most"}


def plan_page(plan: Plan, values: Mapping[str, Any], study_file: str, every: bool) -> str:
    """Return a plan as text.

    Args:
        values: the plan as plain values.
        study_file: the study's file, as a user names it.
        every: whether to list the batches.
    """
    study, model = plan.study, next(iter(plan.study.models))
    pins = group_by(values["open_pins"], lambda pin: f"{WHAT_IS_OPEN[pin['key']]} of {pin['source']}")
    facts = {
        "study_file": study_file,
        "turns": any(split.dialogue for split in study.splits.values()),
        "prompts": sum(plan.whole[Cell(model, split)].prompts for split in study.splits),
        "most_gpus": max((pace.devices for pace in plan.paces.values()), default=0),
        "pins": {what: {pin["name"]: pin for pin in own} for what, own in pins.items()},
        "store": Path(study.paths.store).is_dir(),
        "sums": plan.batches[list(COSTS)].sum(),
        "captures": plan.batches[plan.batches["stage"] == "activations"][list(COSTS)].sum(),
        "programs": _programs(plan),
        "shared": duplicate_counts(plan),
        "least": least_time(plan),
        "licences": study_terms.licences(values["terms"]),
        "gates": study_terms.gates(values["terms"], values["hub_token"]),
        "unverified_texts": study_terms.unverified_texts(values["unverified"]),
        "assumption_lines": assumptions(plan),
        "what_runs": table("WHAT RUNS", _work(plan)),
        "engine_table": table("ENGINES", _engines(plan)),
        "batch_table": table("BATCHES", _batches(plan)) if every else [],
        "part_lines": [part.lines() for part in plan.parts.values()],
        "disk_table": table("DISK", _disk(pd.DataFrame(values["disk"]["needs"]))),
    }
    return _render("plan_page", plan, {**values, **facts})


def assumptions(plan: Plan) -> str:
    """Return what the estimates rest on, a sentence a line."""
    study = plan.study
    written = any(judge.votes_asked().written for judge in study.engine_judges.values())
    of_judges = dict.fromkeys(filter(None, (judge.plan_assumes() for judge in study.judges.values())))
    of_programs = dict.fromkeys(filter(None, (load.assumes for load, _ in plan.programs)))
    return _render("assumptions", plan, {"written": written, "sentences": [*of_judges, *of_programs]})


def _programs(plan: Plan) -> dict[str, "pd.Series[float]"]:
    """Return what programs of features take, by the name of their stage."""
    stages = dict.fromkeys(load.stage for load, _ in plan.programs)
    return {stage: plan.batches[plan.batches["stage"] == stage][list(COSTS)].sum() for stage in stages}


def duplicate_counts(plan: Plan) -> dict[str, int]:
    """Return the duplicates of each fully checked stage: its total minus stored, rejected and pending requests."""
    looked = plan.stages[plan.stages["cells"] == plan.stages["looked_into"]]
    fewer = looked["asked"] - looked[["stored", "rejected", "requests"]].sum(axis=1)
    return {STAGES[str(stage)]: int(count) for stage, count in fewer.items() if count > 0}


def least_time(plan: Plan) -> str:
    """Return how long the GPUs take at least: all device-hours shared evenly, or the longest load."""
    costs = plan.engines[[pace.kind == "cuda" for pace in plan.paces.values()]]
    if costs.empty:
        return ""
    hours, longest = costs["device_hours"].sum() / plan.gpus, costs["longest"].max()
    if longest <= hours:
        return f"{hours:,.1f} h at least"
    part = " (`shards` in the study splits it)" if plan.study.settings.shards == 1 else ""
    return f"{longest:.1f} h at least: the longest load of {costs['longest'].idxmax()}{part}"


def _render(name: str, plan: Plan, values: Mapping[str, Any]) -> str:
    kinds, known = {pace.kind for pace in plan.paces.values()}, [work.known for work in plan.work.values()]
    constants = {**vars(workload), **vars(workload_files), "kinds": kinds, "known": known, "of": plan.study}
    filters: dict[str, Callable[..., Any]] = {"filled": _fill, "many": many, "size": _size, "n": "{:,.0f}".format}
    return render_template(Path(__file__).with_name(f"{name}.txt.j2"), {**constants, **values}, filters).rstrip("\n")


def _work(plan: Plan) -> pd.DataFrame:
    stages = plan.stages[plan.stages["cells"] > 0]
    rejected = ["rejected"] if stages["rejected"].any() else []
    counts = ["cells", "asked", "stored", *rejected, "requests", "batches", "loads"]
    found = _cost_texts(stages, [*counts, "tokens_in", "tokens_out", "most_tokens_out"])
    found["in store"] = found["in store"].where(stages["looked_into"] > 0, "?")
    return found.rename(index=STAGES)


def _engines(plan: Plan) -> pd.DataFrame:
    cells = {}
    for name, pace in plan.paces.items():
        devices = "CPU" if pace.kind == "cpu" else many(pace.devices, "GPU")
        cells[name] = [devices, _size(pace.weights), f"{pace.start_seconds:.0f} s", f"{pace.write_rate:,.0f}"]
        cells[name] = [pace.kind, "-", "-", "-"] if pace == ELSEWHERE else cells[name]
    costs = plan.engines
    if len(costs) > 1:
        costs.loc["all"], cells["all"] = costs.sum(), [""] * 4
    columns = ["devices", "weights", "start", "tokens/s"]
    return pd.DataFrame.from_dict(cells, orient="index", columns=columns).join(_cost_texts(costs, AMOUNTS))


def _batches(plan: Plan) -> pd.DataFrame:
    costs = plan.batches.set_index("name").sort_values("device_hours", ascending=False, kind="stable")
    return costs[["stage"]].join(_cost_texts(costs, ["cells", "requests", *AMOUNTS]))


def _disk(needs: pd.DataFrame) -> pd.DataFrame:
    left = needs[["folder", "detail"]].apply(lambda column: column.str.ljust(column.str.len().max()))
    shown = needs[["expected", "most"]].map(_size).join(left)
    return shown.set_axis(["expected", "at most", "in", ""], axis=1).set_axis(needs["what"])


def _cost_texts(costs: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    found = {
        name: column_texts(costs[name], "hours" if "hours" in name else "tokens" if "tokens" in name else "")
        for name in columns
    }
    return pd.DataFrame(found).rename(columns=TITLES)


def column_texts(counts: "pd.Series[float]", what: str) -> "pd.Series[str]":
    """Return numbers as text, all of a column in one unit and with the same digits."""
    largest = counts.max() if len(counts) else 0.0
    if what == "hours":
        return counts.map(("{:,.1f}" if largest >= 10 else "{:,.2f}").format)
    if what == "tokens" and largest >= MANY_TOKENS:
        return counts.map(_millions)
    return counts.map("{:,.0f}".format)


def _millions(count: float) -> str:
    """Return tokens in millions; what would be shown as none, but is some, as less than the last digit."""
    return "< 0.01 M" if 0 < count < 5e3 else f"{count / 1e6:,.2f} M"


def _fill(text: str, indent: str = "  ") -> str:
    return "".join(f"{line}\n" for line in fill_lines(text.splitlines(), indent))


def _size(size: float) -> str:
    return size_text(int(size))
