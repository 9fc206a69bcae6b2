"""The disk that a study takes: weights and data in the cache, responses in the store, and what is made of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refusal_eval.study.batches import Cell
from refusal_eval.study.row_sources import fetched_path
from refusal_eval.study.weight_sources import weights_id
from refusal_eval.tools.plan.study_costs import Cost, Plan
from refusal_eval.tools.plan.workload import CellWork
from refusal_eval.weights.engine_size import engine_billions, weights_bytes
from refusal_eval.workflow.weights_stage import Weights

# Measured on the demo's store and results: 1,253 responses, 681 answers under two judges.
STORED_BYTES, STORED_BYTES_PER_TOKEN = (
    330,
    16,
)  # of a response with its place in the index; ids above 100,000 are longer
ANSWER_BYTES, ANSWER_BYTES_PER_TOKEN = 430, 4.5
VERDICT_BYTES, JUDGE_REQUEST_BYTES = 230, 930
# Assumed.
ROW_BYTES = 2000  # of a data set
SPARE = 1.05  # what a download needs beside the files themselves


@dataclass(frozen=True)
class Need:
    """Something that takes disk.

    Attributes:
        what: what it is.
        folder: where it will lie.
        key: the study's key that says where.
        expected: bytes, as expected.
        most: bytes, if every answer took all the tokens that it may have.
        detail: what it is made of.
    """

    what: str
    folder: str
    key: str
    expected: float
    most: float
    detail: str = ""


@dataclass(frozen=True)
class Disk:
    """A disk with what a study puts on it.

    Attributes:
        folders: the study's folders on it.
        key: the study's key that says where the largest of them lies.
        free: free bytes.
        expected: bytes that the study takes, as expected.
        most: bytes that it takes at most.
    """

    folders: tuple[str, ...]
    key: str
    free: int
    expected: float
    most: float

    @property
    def verdict(self) -> str:
        """`enough`, `tight` (enough unless answers are long), or `too small`."""
        if self.expected * SPARE > self.free:
            return "too small"
        return "tight" if self.most * SPARE > self.free else "enough"


def disk_needs(plan: Plan, root: Path) -> list[Need]:
    """Return what of a study takes disk, as far as it is not there yet."""
    config = plan.config
    cache, store = str(config["cache_dir"]), str(config["store_dir"])
    results = f"{config['results_dir']}/{config['study']}"
    answers = plan.of_stage("generate")
    verdicts = plan.of_stage("judge")
    made = [_results(config, answers, verdicts, longest) for longest in (False, True)]
    return [
        _weights(plan, cache),
        _data(config, plan.work, cache),
        Need(
            "responses",
            store,
            "store_dir",
            _stored(answers, answers.tokens_out) + _stored(verdicts, verdicts.tokens_out),
            _stored(answers, answers.most_tokens_out) + _stored(verdicts, verdicts.most_tokens_out),
        ),
        Need("results", results, "results_dir", made[0], made[1], "answers and verdicts"),
    ]


def disks(
    needs: Sequence[Need], free: Callable[[str], int], device: Callable[[str], object] | None = None
) -> list[Disk]:
    """Return the disks on which these lie, in the order of the needs.

    Args:
        needs: what takes disk.
        free: tells the free bytes at a folder, which may not be there yet.
        device: tells which disk a folder lies on.
    """
    on: dict[object, list[Need]] = {}
    for need in needs:
        on.setdefault((device or device_of)(need.folder), []).append(need)
    return [
        Disk(
            folders=tuple(dict.fromkeys(need.folder for need in of_disk)),
            key=max(of_disk, key=lambda need: need.expected).key,
            free=free(of_disk[0].folder),
            expected=sum(need.expected for need in of_disk),
            most=sum(need.most for need in of_disk),
        )
        for of_disk in on.values()
    ]


def device_of(folder: str) -> int:
    """Return the number of the disk on which a folder lies or would lie."""
    place = Path(folder).absolute()
    return next(one for one in (place, *place.parents) if one.is_dir()).stat().st_dev


def _weights(plan: Plan, cache: str) -> Need:
    """Weights that are still to be fetched; engines may share them."""
    files, sizes = Weights(plan.config), dict[str, float]()
    here: set[str] = set()
    for name, entry in plan.config["engine_entries"].items():
        weights, pace = entry.get("weights"), plan.paces[name]
        if weights is None:
            continue
        of_engine = files.files(name)
        if weights["kind"] == "folder" or all(os.path.isfile(file) for file in of_engine):
            here.add(weights_id(weights))
            continue
        (billions, _active), _told = engine_billions(entry, of_engine, pace.kind, pace.devices)
        sizes[weights_id(weights)] = weights_bytes(entry, billions)
    total = sum(sizes.values())
    parts = [f"{len(sizes)} to fetch" if sizes else "", f"{len(here)} here already" if here else ""]
    return Need("weights", cache, "cache_dir", total, total, ", ".join(part for part in parts if part))


def _data(config: Mapping[str, Any], work: Mapping[Cell, CellWork], cache: str) -> Need:
    missing, rows = 0, 0
    for section in ("split_entries", "gold_entries"):
        for name, entry in config[section].items():
            if entry["source"]["kind"] in ("bundled", "file") or os.path.isfile(fetched_path(entry["source"], cache)):
                continue
            missing += 1
            known = [one.prompts for cell, one in work.items() if cell.split == name and cell.judge is None]
            rows += max([entry["expected_rows"] or 0, *known])
    detail = f"{missing} to fetch" if missing else "all here already"
    return Need("rows", cache, "cache_dir", rows * ROW_BYTES, rows * ROW_BYTES, detail)


def _stored(of_stage: Cost, tokens: float) -> float:
    return of_stage.requests * STORED_BYTES + tokens * STORED_BYTES_PER_TOKEN


def _results(config: Mapping[str, Any], answers: Cost, verdicts: Cost, longest: bool) -> float:
    """Bytes of what is made of all responses, those that the store has already included."""
    count = answers.requests + answers.stored
    tokens = (answers.most_tokens_out if longest else answers.tokens_out) / max(answers.requests, 1)
    return (
        count * (ANSWER_BYTES + ANSWER_BYTES_PER_TOKEN * tokens + VERDICT_BYTES * len(config["judges"]))
        + (verdicts.requests + verdicts.stored) * JUDGE_REQUEST_BYTES
        + (verdicts.most_tokens_out if longest else verdicts.tokens_out) * ANSWER_BYTES_PER_TOKEN
    )
