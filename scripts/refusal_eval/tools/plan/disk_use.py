"""The disk that a study takes: weights and data in the cache, responses in the store, and what is made of them."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from refusal_eval.config.source_entries import RowSource
from refusal_eval.study.paths import Paths
from refusal_eval.study.study import Study
from refusal_eval.tools.check.machine_checks import SPARE, nearest_folder
from refusal_eval.tools.plan.study_costs import Cost, Plan
from refusal_eval.weights.engine_size import engine_billions, weights_bytes
from refusal_eval.workflow.weights_stage import engine_weights, weights_files

# Measured on the demo's store and results: 1,253 responses, 681 answers under two judges. The first two are of a
# response with its place in the index; ids above 100,000 are longer.
STORED_BYTES, STORED_BYTES_PER_TOKEN = 330, 16
ANSWER_BYTES, ANSWER_BYTES_PER_TOKEN = 430, 4.5
VERDICT_BYTES, JUDGE_REQUEST_BYTES = 230, 930
ROW_BYTES = 2000  # of a data set; assumed


@dataclass(frozen=True)
class Need:
    """Something that takes disk."""

    what: str  # what it is
    folder: str  # where it will lie
    key: str  # the study's key that says where
    expected: float  # bytes, as expected
    most: float  # bytes, if every answer took all the tokens that it may have
    detail: str = ""  # what it is made of


@dataclass(frozen=True)
class Disk:
    """A disk with what a study puts on it."""

    folders: tuple[str, ...]  # the study's folders on it
    key: str  # the study's key that says where the largest of them lies
    free: int
    expected: float  # bytes that the study takes, as expected
    most: float  # bytes that it takes at most

    @property
    def verdict(self) -> str:
        """`enough`, `tight` (enough unless answers are long), or `too small`."""
        if self.expected * SPARE > self.free:
            return "too small"
        return "tight" if self.most * SPARE > self.free else "enough"


def disk_needs(plan: Plan) -> list[Need]:
    """Return what of a study takes disk, as far as it is not there yet."""
    paths, answers, verdicts = Paths(plan.config), plan.of_stage("generate"), plan.of_stage("judge")
    made, most_made = (_results(plan, answers, verdicts, longest) for longest in (False, True))
    ids = (answers.requests + verdicts.requests) * STORED_BYTES
    stored = ids + (answers.tokens_out + verdicts.tokens_out) * STORED_BYTES_PER_TOKEN
    most_stored = ids + (answers.most_tokens_out + verdicts.most_tokens_out) * STORED_BYTES_PER_TOKEN
    return [
        _weights(plan, paths.cache),
        _rows(plan, paths.cache),
        Need("responses", paths.store, "store_dir", stored, most_stored),
        Need("results", paths.results, "results_dir", made, most_made, "answers and verdicts"),
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
    return nearest_folder(Path(folder)).stat().st_dev


def _weights(plan: Plan, cache: str) -> Need:
    """Weights that are still to be fetched; engines may share them."""
    study, sizes, here = Study(plan.config), dict[str, float](), set[str]()
    for name, entry in plan.config["engine_entries"].items():
        weights, of_engine, pace = engine_weights(study, name), weights_files(study, name), plan.paces[name]
        if weights is None:
            continue
        if not weights.fetched or all(os.path.isfile(file) for file in of_engine):
            here.add(weights.copy_id)
        else:
            (billions, _active), _told = engine_billions(entry, of_engine, pace.kind, pace.devices)
            sizes[weights.copy_id] = weights_bytes(entry, billions)
    total = sum(sizes.values())
    parts = [f"{len(sizes)} to fetch"] * bool(sizes) + [f"{len(here)} here already"] * bool(here)
    return Need("weights", cache, "cache_dir", total, total, ", ".join(parts))


def _rows(plan: Plan, cache: str) -> Need:
    missing = {}
    for section, name, entry, source in Study(plan.config).sources():
        if isinstance(source, RowSource) and source.fetched and not os.path.isfile(source.cached_path(cache)):
            known = [work.prompts for cell, work in plan.work.items() if cell.split == name and not cell.judge]
            missing[section, name] = max([entry.expected_rows or 0, *known])
    detail = f"{len(missing)} to fetch" if missing else "all here already"
    size = sum(missing.values()) * ROW_BYTES
    return Need("rows", cache, "cache_dir", size, size, detail)


def _results(plan: Plan, answers: Cost, verdicts: Cost, longest: bool) -> float:
    """Bytes of what is made of all responses, those that the store has already included."""
    count = answers.requests + answers.stored
    tokens = (answers.most_tokens_out if longest else answers.tokens_out) / max(answers.requests, 1)
    return (
        count * (ANSWER_BYTES + ANSWER_BYTES_PER_TOKEN * tokens + VERDICT_BYTES * len(plan.config["judges"]))
        + (verdicts.requests + verdicts.stored) * JUDGE_REQUEST_BYTES
        + (verdicts.most_tokens_out if longest else verdicts.tokens_out) * ANSWER_BYTES_PER_TOKEN
    )
