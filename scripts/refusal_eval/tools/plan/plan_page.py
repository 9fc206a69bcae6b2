"""The plan of a study as a page of text: what runs, on which devices, how long, and what disk it takes."""

from collections.abc import Sequence
from pathlib import Path

from refusal_eval.core.files import size_text
from refusal_eval.study.batches import Cell
from refusal_eval.study.study import Study
from refusal_eval.tools.plan.disk_use import Disk, Need
from refusal_eval.tools.plan.page_lines import filled, many, table
from refusal_eval.tools.plan.study_costs import STAGES, Cost, Plan, total
from refusal_eval.tools.plan.workload import (
    ASSUMED,
    ELSEWHERE,
    GPU_LOAD_BYTES,
    GPU_MEMORY_BYTES,
    GPU_START_SECONDS,
    GPU_TEXTS_AT_A_TIME,
    GPU_WRITE_FLOPS,
    MISSING,
    PARALLEL_SHARE,
    PLAIN_ANSWER,
    PLAIN_VERDICT,
    REASONED_ANSWER,
    REASONED_VERDICT,
)
from refusal_eval.tools.plan.workload_files import ASSUMED_PROMPT_TOKENS, ASSUMED_PROMPTS
from refusal_eval.weights.engine_size import engine_billions, weights_bytes


def head(plan: Plan) -> list[str]:
    """Return what is planned, and the GPUs that it takes."""
    config, kinds = plan.config, {pace.kind for pace in plan.paces.values()}
    asked = f"{many(len(config['models']), 'model')} on {many(len(config['splits']), 'split')}"
    if not any(entry.get("dialogue") for entry in config["split_entries"].values()):
        prompts = sum(plan.whole[Cell(config["models"][0], split)].prompts for split in config["splits"])
        asked += f" ({prompts:,} prompts)"
    protocol = "" if config["protocol"] == "default" else f" Protocol: {config['protocol']}."
    devices = ["the whole CPU, one engine at a time"] if "cpu" in kinds else []
    largest = max((pace.devices for pace in plan.paces.values()), default=0)
    devices += [f"up to {many(largest, 'GPU')}"] if "cuda" in kinds else []
    judged = f"K = {config['samples']}, judged by {', '.join(config['judges'])}."
    takes = f"An engine load takes {' or '.join(devices) or 'nothing: there is no engine'}. Costs are estimates."
    return filled([f"Study `{config['study']}`: {asked}, {judged}{protocol}", takes], indent="")


def work_lines(plan: Plan, study_file: str) -> list[str]:
    """Return requests and tokens by stage; `study_file` as a user names it."""
    columns = "cells,requests,in store,to execute,batches,loads,tokens in,tokens out,at most"
    rows = []
    for stage, what in STAGES.items():
        cost = plan.of_stage(stage)
        if cost.cells:
            counts = [cost.requests, sum(batch.stage == stage for batch in plan.batches), cost.loads]
            tokens = [_tokens(count) for count in (cost.tokens_in, cost.tokens_out, cost.most_tokens_out)]
            stored = f"{cost.stored:,}" if cost.looked_into else "?"
            known = [f"{cost.cells:,}", f"{plan.requests(stage):,}", stored, *(f"{count:,}" for count in counts)]
            rows.append([what, *known, *tokens])
    lines = table(["WHAT RUNS", *columns.split(",")], rows, 12)
    if without := Study(plan.config).judges_by("answers"):
        lines.append(f"  Verdicts without an engine, on the CPU: {', '.join(without)}.")
    return [*lines, *filled([*_known(plan, study_file), *shared_lines(plan)])]


def engine_lines(plan: Plan) -> list[str]:
    """Return what every engine takes, all together, and at least how long that is."""
    costs, rows = plan.engines, []
    for cost in costs:
        pace, entry = plan.paces[cost.name], plan.config["engine_entries"][cost.name]
        told = [pace.kind, "-", "-", "-"]
        if pace != ELSEWHERE:
            (billions, _active), _told = engine_billions(entry, (), pace.kind, pace.devices)
            told = ["CPU" if pace.kind == "cpu" else many(pace.devices, "GPU"), _size(weights_bytes(entry, billions))]
            told += [f"{pace.start_seconds:.0f} s", f"{pace.write_rate:,.0f}"]
        rows.append([cost.name, *told, *_amount(cost)])
    if len(costs) > 1:
        rows.append(["all", "", "", "", "", *_amount(total("all", costs))])
    columns = "devices,weights,start,tokens/s,loads,tokens out,device-hours,at most"
    lines = table(["ENGINES", *columns.split(",")], rows, 34)
    lines.append("  At most: if every answer took all the tokens that it may have. Engine starts are included.")
    if not any(cost.loads for cost in costs):
        return [*lines, "  The store has every response: no engine will be started."]
    # The GPUs take at least so long: all device-hours shared evenly, or the longest load.
    if on_gpus := [cost for cost in costs if plan.paces[cost.name].kind == "cuda"]:
        hours = sum(cost.device_hours for cost in on_gpus) / plan.gpus
        longest = max(on_gpus, key=lambda cost: cost.longest)
        least = f"{hours:,.1f} h at least"
        if longest.longest > hours:
            part = " (`shards` in the study splits it)" if plan.config["shards"] == 1 else ""
            least = f"{longest.longest:.1f} h at least: the longest load of {longest.name}{part}"
        lines.append(f"  On {many(plan.gpus, 'GPU')}: {least}.")
    return lines


def batch_lines(plan: Plan) -> list[str]:
    """Return what every batch takes, those that take longest first."""
    costs = sorted(plan.batches, key=lambda cost: -cost.device_hours)
    rows = [[cost.name, cost.stage, f"{cost.cells:,}", f"{cost.requests:,}", *_amount(cost)] for cost in costs]
    columns = "stage,cells,to execute,loads,tokens out,device-hours,at most"
    return table(["BATCHES", *columns.split(",")], rows, 34)


def disk_lines(needs: Sequence[Need], found: Sequence[Disk]) -> list[str]:
    """Return what takes disk, and whether there is room."""
    lines = ["DISK"]
    for need in needs:
        most = f" (at most {_size(need.most)})" if _size(need.most) != _size(need.expected) else ""
        detail = f"  {need.detail}" if need.detail else ""
        lines.append(f"  {need.what:<12}{_size(need.expected):>8}{most:<20}in {need.folder}{detail}")
    for disk in found:
        takes = f"{_size(disk.expected)} needed, {size_text(disk.free)} free on the disk of {', '.join(disk.folders)}"
        if disk.verdict == "too small":
            takes = f"TOO SMALL: {takes}. Set `{disk.key}` to a larger disk"
        elif disk.verdict == "tight":
            takes = f"Tight: {takes}, and {_size(disk.most)} needed if answers are long"
        lines += filled([f"{takes}."])
    return lines


def assumption_lines(plan: Plan) -> list[str]:
    """Return what the estimates rest on."""
    kinds = {pace.kind for pace in plan.paces.values()}
    known = {work.known for work in plan.work.values()}
    said = []
    unread = f"has {ASSUMED_PROMPT_TOKENS:.0f} tokens until its text is here, and " if known - {MISSING} else ""
    said.append(f"A prompt {unread}is read once for its K answers")
    if ASSUMED in known:
        said.append(f"A split of unknown size has {ASSUMED_PROMPTS} prompts, a filtered one all of its rows")
    said.append(
        f"An answer takes {PLAIN_ANSWER:,.0f} tokens, {REASONED_ANSWER:,.0f} with reasoning, or `max_tokens` where "
        "that is less"
    )
    study = Study(plan.config)
    if any(study.judges[name].votes_asked().written for name in study.judges_by("engine")):
        said.append(
            f"A written verdict takes {PLAIN_VERDICT:,.0f} tokens, {REASONED_VERDICT:,.0f} from a judge that reasons "
            "first; none has to be asked again"
        )
    if "cuda" in kinds:
        said.append(
            f"A GPU is like an A100 ({GPU_WRITE_FLOPS / 1e12:.0f} TFLOPS of useful work, {GPU_MEMORY_BYTES / 1e12:.1f} "
            f"TB/s, {GPU_TEXTS_AT_A_TIME} answers at a time); an H100 is about twice as fast"
        )
        said.append(
            f"Twice the GPUs for one engine give {2 * PARALLEL_SHARE:.1f} times the speed; it starts in "
            f"{GPU_START_SECONDS:.0f} s or more, and reads weights at {GPU_LOAD_BYTES / 1e9:.0f} GB/s"
        )
        said.append("None of this was measured on a GPU by us; a run with `prompts_per_split: {size: 20}` tells more")
    return ["ASSUMPTIONS", *filled(f"{text}." for text in said)]


def _known(plan: Plan, study_file: str) -> list[str]:
    """Return how the numbers of requests are known, and how to know what the store has of the others."""
    sums = total("all", plan.batches)
    if sums.looked_into == sums.cells:
        return ["Requests: counted, all of them looked up in the store."]
    assumed = sum(work.known == ASSUMED for work in plan.work.values())
    first = f"{sums.looked_into:,} cells looked up in the store, the others " if sums.looked_into else ""
    last = f" ({assumed:,} cells: assumed)" if assumed else ""
    lines = [f"Requests: {first}prompts times K{last}."]
    if sums.outdated:
        lines.append(
            "CHANGED since the last run: the study, a file that it reads, or the workflow: the next run renders the "
            f"requests of {sums.outdated:,} cells again, and those of before are not counted."
        )
    rendered = "What the store has already (?) shows once requests are rendered."
    if Path(plan.config["store_dir"]).is_dir():
        command = f".venv/workflow/bin/snakemake --cores all --configfile {study_file} --until requests"
        rendered += (
            f" `{command}` does that without an engine; if then no answer is to execute, the same with `--until "
            "judge_requests` does it for verdicts."
        )
    lines.append(rendered)
    return lines


def shared_lines(plan: Plan) -> list[str]:
    """Return why a stage that was looked up in the store has fewer requests there and to execute than in all."""
    lines = []
    for stage, what in STAGES.items():
        sums = plan.of_stage(stage)
        fewer = plan.requests(stage) - sums.stored - sums.requests
        if sums.cells and sums.looked_into == sums.cells and fewer > 0:
            lines.append(
                f"{fewer:,} of the requests for {what} are not sent: equal ones share a response, and an answer "
                "without text or a prompt that does not fit is not asked about."
            )
    return lines


def _tokens(count: float) -> str:
    return f"{count / 1e6:,.1f} M" if count >= 1e5 else f"{count:,.0f}"


def _size(size: float) -> str:
    return size_text(int(size))


def _amount(cost: Cost) -> list[str]:
    """Return loads, tokens, and device-hours as expected and at most."""
    hours = [f"{one:,.1f}" if one >= 10 else f"{one:.2f}" for one in (cost.device_hours, cost.most_device_hours)]
    return [f"{cost.loads:,}", _tokens(cost.tokens_out), *hours]
