"""How well a study uses eight GPUs, under the workflow's own order of jobs and Snakemake's own scheduler.

The study: 5 models that take 1, 1, 2, 2 and 4 GPUs, 9 splits, 2 judges on engines of 1 and 2 GPUs. Its engines are
stand-ins (`stand_in_engine.py`) that take the time that real ones are estimated to take, scaled down so that a whole
run takes some minutes; the devices are names only, which jobs lease as they would lease GPUs. Beside each run stands
the pure model of it, on which the proposal of `scripts/plan_study.py` rests.

Measured is the time from the start of the first engine load to the end of the last, on a clock that stands still while
scripts and Snakemake compute (`simulated_time.py`): 135 small CPU jobs between generation and judging are seconds on a
machine with eight GPUs, and minutes here. So the figure says how well devices are used, on a busy machine as well.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from measuring import ROOT, print_head, print_limit, snakemake, timed
from simulated_time import Clock, keep_time

from refusal_eval.config import load_study
from refusal_eval.core.files import read_json
from refusal_eval.study.batches import Cell, shard_of
from refusal_eval.tools.plan.schedule import Option, list_schedule, lower_bound, option, options, proposed
from refusal_eval.tools.plan.workload import CellWork, Load, Pace, loads_of
from refusal_eval.tools.plan.workload_files import cell_work, engine_paces

LIMIT = 1.15
GPUS = 8
CAPACITY = {"cuda": GPUS}
MODELS = {"model-3b": 1, "model-8b": 1, "model-14b": 2, "model-32b": 2, "model-70b": 4}
JUDGES = {"judge-8b": 1, "judge-27b": 2}
PROMPTS = (4, 5, 6, 7, 8, 9, 10, 12, 14)  # of each split
SAMPLES = 4
MOST_TOKENS = 8192  # of an answer: so many that few requests are as much work as a real study's many
SHARES = (200 / MOST_TOKENS, 1000 / MOST_TOKENS)  # that an answer takes: the mean is what estimates expect
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclass(frozen=True)
class Study:
    """The study in a folder.

    Attributes:
        folder: where it lies.
        config: validated.
        work: what is to be executed for every cell.
        paces: of the engines, in seconds of a real machine.
        scale: seconds of the simulation for one of these.
    """

    folder: Path
    config: dict[str, Any]
    work: dict[Cell, CellWork]
    paces: dict[str, Pace]
    scale: float

    def loads(self, batch: str, shards: int) -> list[Load]:
        """Return the engine loads of a setting, in seconds of a real machine."""
        return loads_of(self.config, self.work, self.paces, batch, shards)


@dataclass(frozen=True)
class Run:
    """What a run of a setting took: makespan and bound in seconds of the simulation, wall in ours."""

    loads: int
    makespan: float
    bound: float
    wall: float


def main() -> int:
    """Print the table; return 1 if the proposed setting does not keep the limit."""
    arguments = parsed()
    print_head(f"{len(MODELS)} models x {len(PROMPTS)} splits x {len(JUDGES)} judges on {GPUS} simulated GPUs")
    with tempfile.TemporaryDirectory(prefix="refusal-eval-order-") as temporary:
        study = written_study(Path(temporary, "study"), arguments.seconds)
        best = proposed(options(study.loads, CAPACITY))
        settings = [(best.batch, best.shards), *(setting(text) for text in arguments.settings)]
        print(f"one second stands for {1 / study.scale:.1f} s; proposed: {best.batch} x {best.shards}", flush=True)
        print_models(study, settings)
        if arguments.model_only:
            return 0
        prepare(study)
        print(f"\n{'setting':<14}{'loads':>6} | {'model: makespan':>16}{'bound':>8}{'ratio':>7}", end="")
        print(f" | {'run: makespan':>14}{'bound':>8}{'ratio':>7}{'wall':>8}", flush=True)
        ratios = [print_run(study, *chosen) for chosen in settings]
    print_limit("proposed setting: makespan / lower bound", ratios[0], LIMIT)
    return 0 if ratios[0] <= LIMIT else 1


def parsed() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=float, default=200, help="makespan of the proposed setting (default 200)")
    parser.add_argument(
        "--settings",
        nargs="*",
        default=["model:1", "engine:1"],
        metavar="BATCH:SHARDS",
        help="settings that are run beside the proposed one (default model:1 engine:1)",
    )
    parser.add_argument("--model-only", action="store_true", help="only the pure model: nothing is run")
    return parser.parse_args()


def setting(text: str) -> tuple[str, int]:
    """Return batch and shards of `model:2`."""
    batch, _, shards = text.partition(":")
    return batch, int(shards or 1)


# ---------------------------------------------------------------- the pure model


def print_models(study: Study, settings: Sequence[tuple[str, int]]) -> None:
    """Print what the pure model says of these and all other settings, and of other orders than longest first."""
    ranks = {
        "longest first": None,
        "as they come": lambda load: 0.0,
        "shortest first": lambda load: -load.seconds,
        "widest first": lambda load: load.devices * 1e9 + load.seconds,
    }
    print(f"\npure model{'':<8}{'loads':>6}{'device-hours':>14}{'bound':>9}" + "".join(f"{name:>16}" for name in ranks))
    every = [*settings, *(("model", shards) for shards in (1, 2, 3, 4, 8)), *(("engine", n) for n in (1, 2, 4, 8))]
    for batch, shards in dict.fromkeys([*every, ("cell", 1)]):
        loads = study.loads(batch, shards)
        found = option(batch, shards, loads, CAPACITY)
        line = f"{batch + ' x ' + str(shards):<18}{found.loads:>6}{found.device_seconds / 3600:>14.2f}"
        line += f"{found.bound / 60:>5.0f} min"
        for rank in ranks.values():
            makespan = max(end for _, end in list_schedule(loads, CAPACITY, rank).values())
            line += f"{makespan / 60:>6.0f} min {makespan / found.bound:.2f}"
        print(line, flush=True)


# ---------------------------------------------------------------- the study


def written_study(folder: Path, seconds: float) -> Study:
    """Write the study; the proposed setting is to take this many seconds."""
    for name in [*MODELS, *JUDGES]:
        write_weights(folder / "engines" / name)
    for number, count in enumerate(PROMPTS):
        rows = [{"prompt": f"split {number}, question {row}: " + "why? " * 40} for row in range(count)]
        (folder / f"s{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "rubric.md").write_text("Judge.\n<a-{{ nonce }}>{{ prompt }}\n{{ answer }}</a-{{ nonce }}>\nLabel:")
    (folder / "catalogue.yaml").write_text(yaml.safe_dump(catalogue()))
    splits = [f"s{number}" for number in range(len(PROMPTS))]
    values = {"study": "order", "models": [*MODELS], "splits": splits, "judges": [*JUDGES], "samples": SAMPLES}
    (folder / "study.yaml").write_text(yaml.safe_dump({**values, "catalogue": ["catalogue.yaml"]}))
    here = os.getcwd()
    os.chdir(folder)  # paths of a study count from where snakemake runs
    try:
        config = load_study(yaml.safe_load(Path("study.yaml").read_text()), "study.yaml", str(ROOT))
        work, (paces, _) = cell_work(config, ROOT, in_store=False), engine_paces(config, ROOT)
    finally:
        os.chdir(here)
    study = Study(folder, config, work, paces, 1.0)
    study = replace(study, scale=seconds / proposed(options(study.loads, CAPACITY)).makespan)
    for name in [*MODELS, *JUDGES]:
        write_pace(study, name)
    return study


def catalogue() -> dict[str, Any]:
    """Return the study's catalogue."""
    engine = {"max_model_len": 16384, "device": "cuda", "python": str(ROOT / "benchmarks" / "stand_in_engine.py")}
    labels = {"refusal": "A", "partial": "B", "compliance": "C"}
    splits = {
        f"s{number}": {
            "source": {"kind": "file", "path": f"s{number}.jsonl"},
            "expectation": "comply",
            "expected_rows": count,
        }
        for number, count in enumerate(PROMPTS)
    }
    return {
        "engines": {
            name: {**engine, "weights": {"kind": "folder", "path": f"engines/{name}"}, "tensor_parallel": gpus}
            for name, gpus in {**MODELS, **JUDGES}.items()
        },
        "models": {name: {"engine": name, "sampling": {"max_tokens": MOST_TOKENS}} for name in MODELS},
        "judges": {name: {"kind": "llm", "engine": name, "rubric": "rubric.md", "labels": labels} for name in JUDGES},
        "datasets": {"made": {"splits": splits}},
    }


def write_weights(folder: Path) -> None:
    """Write a model folder: a tokenizer of one token a byte, and weights that are none."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    folder.mkdir(parents=True)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE(vocab={character: number for number, character in enumerate(alphabet)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    core.save(str(folder / "tokenizer.json"))
    tokenizer = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    (folder / "config.json").write_text(json.dumps({"eos_token_id": 257}))
    (folder / "model.safetensors").write_bytes(folder.name.encode())


def write_pace(study: Study, engine: str) -> None:
    """Write how fast a stand-in is: as its engine is estimated, scaled."""
    pace, scale = study.paces[engine], study.scale
    cells = {(cell.judge or cell.model): work for cell, work in study.work.items()}
    prompts = [work.tokens_per_prompt for cell, work in study.work.items() if engine in (cell.judge, cell.model)]
    shared = cells[engine].prompts / max(cells[engine].requests, 1)  # samples of a prompt share its reading
    values = {
        "start_seconds": pace.start_seconds * scale,
        "read_rate": pace.read_rate / scale,
        "write_rate": pace.write_rate / scale,
        "stream_rate": pace.stream_rate / scale,
        "prompt_tokens": shared * sum(prompts) / len(prompts),
        "shares": SHARES,
    }
    (study.folder / "engines" / engine / "pace.conf").write_text(json.dumps(values))


# ---------------------------------------------------------------- running it


def command(folder: Path, *targets: str) -> list[str]:
    """Return the command that runs the study up to a rule; loads on all GPUs and two other jobs may run at one time."""
    options = ["--cores", str(GPUS + 2), "--resources", f"gpu={GPUS}"]
    place = ["-s", str(ROOT / "Snakefile"), "--directory", str(folder), "--configfile", str(folder / "study.yaml")]
    return snakemake(*place, *options, "--workflow-profile", str(ROOT / "profiles/default"), "--until", *targets)


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a run: eight devices by name, locks of its own."""
    devices = ",".join(map(str, range(GPUS)))
    return {**os.environ, "CUDA_VISIBLE_DEVICES": devices, "REFUSAL_EVAL_LOCKS": str(folder / "locks")}


def prepare(study: Study) -> None:
    """Render the requests of generation, and check the judges."""
    timed(command(study.folder, "requests", "check_judge"), study.folder, environment(study.folder))


def print_run(study: Study, batch: str, shards: int) -> float:
    """Run a setting, print its line; return makespan / lower bound."""
    model = option(batch, shards, study.loads(batch, shards), CAPACITY)
    run = run_setting(study, model)
    scaled = (model.makespan * study.scale, model.bound * study.scale, model.makespan / model.bound)
    line = f"{f'{batch} x {shards}':<14}{run.loads:>6} | {scaled[0]:>14.0f} s{scaled[1]:>6.0f} s{scaled[2]:>7.2f}"
    line += f" | {run.makespan:>12.0f} s{run.bound:>6.0f} s{run.makespan / run.bound:>7.2f}{run.wall:>6.0f} s"
    print(line, flush=True)
    return run.makespan / run.bound


def run_setting(study: Study, chosen: Option) -> Run:
    """Run a copy of the study in a setting, up to the last verdict.

    Raises:
        SystemExit: if it fails, if another number of engines is started than was planned, or if two loads had the same
            device at one time.
    """
    folder = study.folder.with_name(f"{chosen.batch}-{chosen.shards}")
    shutil.copytree(study.folder, folder)
    (folder / "results" / "order" / "study.json").unlink(missing_ok=True)  # the copy is a study of its own
    text = yaml.safe_load((folder / "study.yaml").read_text())
    (folder / "study.yaml").write_text(yaml.safe_dump({**text, "batch": chosen.batch, "shards": chosen.shards}))
    wall = run_in_simulated_time(command(folder, "judge"), folder)
    lines = (folder / "engines" / "loads.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    check(records, chosen)
    makespan = max(record["ended"] for record in records) - min(record["began"] for record in records)
    return Run(len(records), makespan, bound_of(study, folder, records, chosen), wall)


def run_in_simulated_time(command: Sequence[str], folder: Path) -> float:
    """Run a command on a clock of its own; return how long it took by ours (seconds).

    Raises:
        SystemExit: if it failed.
    """
    started = time.perf_counter()
    clock, output = Clock(folder / "engines" / "clock", make=True), folder / "output.txt"
    with open(output, "wb") as stream:
        run = subprocess.Popen(
            command, cwd=folder, env=environment(folder), stdin=subprocess.DEVNULL, stdout=stream, stderr=stream
        )
        keep_time(clock, run)
    if run.returncode != 0:
        raise SystemExit(f"{output.read_text(errors='replace')[-6000:]}\n\nexit code {run.returncode}")
    return time.perf_counter() - started


def check(records: Sequence[dict[str, Any]], chosen: Option) -> None:
    """Exit if these are not the planned loads, or if two of them had the same device at one time."""
    if len(records) != chosen.loads:
        raise SystemExit(f"{len(records)} engines were started, and {chosen.loads} were planned")
    for one in records:
        for other in records:
            both = set(one["devices"].split(",")) & set(other["devices"].split(","))
            if one is not other and both and one["began"] < other["ended"] and other["began"] < one["ended"]:
                raise SystemExit(f"{one['engine']} and {other['engine']} had device {sorted(both)} at one time")


def bound_of(study: Study, folder: Path, records: Sequence[dict[str, Any]], chosen: Option) -> float:
    """Return the seconds that no order could beat.

    They are counted from the times that the stand-ins were to take, with the answers' real lengths: what stopping,
    waiting and looking for the next job adds is in the makespan and not in the bound.
    """
    gpus = {**MODELS, **JUDGES}
    for record in records:
        if len(record["devices"].split(",")) != gpus[record["engine"]]:
            raise SystemExit(
                f"{record['engine']} had the devices {record['devices']}, and needs {gpus[record['engine']]}"
            )
    shared: float = sum((r["start_seconds"] + r["work_seconds"]) * gpus[r["engine"]] for r in records) / GPUS
    requests = {
        (
            stage,
            str(path.parent.relative_to(folder / "results/order/receipts" / stage)),
            shard_of(path.stem),
        ): read_json(path)
        for stage in ("generate", "judge")
        for path in (folder / "results/order/receipts" / stage).rglob("*.json")
    }
    loads = []
    for load in study.loads(chosen.batch, chosen.shards):
        share = requests[load.stage, load.batch, load.shard]["executed"] / max(load.requests, 1)
        scaled = (load.start_seconds * study.scale, load.work_seconds * study.scale * min(share, 1.0))
        loads.append(replace(load, start_seconds=scaled[0], work_seconds=scaled[1]))
    longest: float = max(record["start_seconds"] + record["work_seconds"] for record in records)
    return max(shared, longest, lower_bound(loads, {}))


if __name__ == "__main__":
    sys.exit(main())
