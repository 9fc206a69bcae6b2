"""The disk space of a study: weights and data in the cache, responses in the store, and the results."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from refusal_eval.activations.model_facts import model_facts
from refusal_eval.config.source_entries import RowSource
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json
from refusal_eval.study.files import file_of
from refusal_eval.tools.plan.study_costs import Plan
from refusal_eval.tools.plan.workload import stored_bytes
from refusal_eval.workflow.activations_stage import layers
from refusal_eval.workflow.weights_stage import engine_weights

# Measured on the demo's results: 681 answers under two judges.
ANSWER_BYTES, ANSWER_BYTES_PER_TOKEN = 430, 4.5
VERDICT_BYTES, JUDGE_REQUEST_BYTES = 230, 930
MADE = ("answers", "verdicts", "judge_requests")  # what the sizes above are of
ROW_BYTES = 2000  # of a data set; assumed
SPARE = 1.05  # the space of a download, relative to its files
# What takes disk, where it will lie and the study's key that says so, bytes as expected and if every answer took all
# the tokens that it may have, and what it is made of.
NEED = ["what", "folder", "key", "expected", "most", "detail"]


def disk_needs(plan: Plan) -> pd.DataFrame:
    """Return the parts of a study that take disk and are not there yet: a row of `NEED` each."""
    paths, stages = plan.study.paths, plan.stages
    answers, verdicts = stages.to_dict("index").values()
    stored, made = [], []
    for tokens in ("tokens_out", "most_tokens_out"):
        stored.append(stored_bytes(stages["requests"].sum(), stages[tokens].sum()))
        # Results hold all responses, those that the store has already included.
        each = ANSWER_BYTES + VERDICT_BYTES * len(plan.study.judges)
        each += ANSWER_BYTES_PER_TOKEN * answers[tokens] / max(answers["requests"], 1)
        made.append(
            (answers["requests"] + answers["stored"]) * each
            + (verdicts["requests"] + verdicts["stored"]) * JUDGE_REQUEST_BYTES
            + verdicts[tokens] * ANSWER_BYTES_PER_TOKEN
        )
    files = (path for noun in MADE for path in Path(paths.results, file_of(noun).folder).rglob("*") if path.is_file())
    here = sum(path.stat().st_size for path in files)
    made = [max(0.0, size - here) for size in made]  # a file that is made again replaces the old one
    weights, to_fetch = _weights(plan)
    rows, missing = _rows(plan)
    needs = [
        ("weights", paths.cache, "cache_dir", weights, weights, to_fetch),
        ("rows", paths.cache, "cache_dir", rows, rows, missing),
        ("responses", paths.store, "store_dir", *stored, ""),
        ("results", paths.results, "results_dir", *made, "answers and verdicts"),
    ]
    if plan.captured:
        size, about = _activations(plan)
        needs += [
            ("activations", paths.store, "store_dir", size, size, about),
            ("activations", paths.results, "results_dir", size, size, about),
        ]
    return pd.DataFrame(needs, columns=NEED)


def disks(
    needs: pd.DataFrame, free: Callable[[str], int], device: Callable[[str], object] | None = None
) -> list[dict[str, Any]]:
    """Return the disks that hold these, whether there is room (`enough`, `tight` if answers are long, or not), and
    `todo`, the remedy if there is not.

    Args:
        free: returns the free bytes at a folder, which may not exist yet.
        device: returns the disk that holds a folder.
    """
    found = []
    for _, own in needs.groupby(needs["folder"].map(device or device_of), sort=False):
        expected, most, space = float(own["expected"].sum()), float(own["most"].sum()), free(own["folder"].iloc[0])
        verdict = "too small" if expected * SPARE > space else "tight" if most * SPARE > space else "enough"
        folders, key = list(dict.fromkeys(own["folder"])), own.sort_values("expected")["key"].iloc[-1]
        sizes = {"free": space, "expected": expected, "most": most}
        todo = f"make room, or set `{key}` to a larger disk"
        found.append({"folders": folders, "key": key, **sizes, "verdict": verdict, "todo": todo})
    return found


def device_of(folder: str) -> int:
    """Return the number of the disk that holds, or would hold, a folder."""
    return nearest_folder(Path(folder)).stat().st_dev


def read_free(folder: str) -> int:
    """Return the free bytes of that disk."""
    return shutil.disk_usage(nearest_folder(Path(folder))).free


def nearest_folder(folder: Path) -> Path:
    """Return a folder, or its nearest existing parent."""
    return next(one for one in (folder, *folder.absolute().parents) if one.is_dir())


def _weights(plan: Plan) -> tuple[float, str]:
    """Return the bytes of weights that are still to be fetched, and how many; engines may share them."""
    sizes, here = dict[str, float](), set[str]()
    for name, pace in plan.paces.items():
        weights = engine_weights(plan.study, name)
        if weights is None:
            continue
        if not weights.fetched or os.path.isfile(weights.copy_file(plan.study.paths.cache)):
            here.add(weights.copy_id)
        else:
            sizes[weights.copy_id] = pace.weights
    parts = [f"{len(sizes)} to fetch"] * bool(sizes) + [f"{len(here)} here already"] * bool(here)
    return sum(sizes.values()), ", ".join(parts)


def _activations(plan: Plan) -> tuple[float, str]:
    """Return the bytes of the activations that are captured, as stored, and their number in words.

    A model's depth and width come from its config.json, which exists once its engine is identified; before, they are
    assumed by the number of its parameters.
    """
    study, size, rows, assumed = plan.study, 0.0, 0, set[str]()
    for (positions, model, split), work in plan.captured.items():
        engine, count = study.models[model].engine_name, work.requests + work.stored
        try:
            facts = model_facts(read_json(study.paths.of("engines", engine=engine))["folder"])
            depth, width = float(facts["model_layers"]), float(facts["width"])
        except (UserError, OSError):
            assumed.add(model)
            depth, width = assumed_shape(plan.paces[engine].active)
        named = layers(study, positions, model, split)
        bytes_each = 4 if study.config["engine_entries"][engine]["dtype"] == "float32" else 2
        size += count * (depth if named is None else len(named)) * width * bytes_each
        rows += count
    parts = [f"{rows:,} rows"] * bool(rows)
    shape = f"depth and width of {', '.join(sorted(assumed))} assumed by size"
    parts += [shape] * bool(assumed)
    return size, ", ".join(parts)


def assumed_shape(billions: float) -> tuple[float, float]:
    """Return the layers and the width that a model of so many active parameters has, roughly.

    A decoder layer of width d has about 12 d^2 parameters, and models are about 128 times as wide as deep: so L layers
    have 12 * 128^2 L^3. L times d, which the disk is made of, is then 0.6 to 1.2 times that of SmolLM2-135M (30 x 576),
    Qwen3-4B (36 x 2,560), Llama-3.1-8B (32 x 4,096) and Llama-3.1-70B (80 x 8,192).
    """
    depth = (billions * 1e9 / (12 * 128**2)) ** (1 / 3)
    return depth, 128 * depth


def _rows(plan: Plan) -> tuple[int, str]:
    missing = {}
    for section, name, entry, source in plan.study.sources():
        path = source.copy_file(plan.study.paths.cache) if isinstance(source, RowSource) and source.fetched else None
        if path and not os.path.isfile(path):
            known = [work.prompts for cell, work in plan.work.items() if cell.split == name and not cell.judge]
            missing[section, name] = max([entry.expected_rows or 0, *known])
    return sum(missing.values()) * ROW_BYTES, f"{len(missing)} to fetch" if missing else "all here already"
