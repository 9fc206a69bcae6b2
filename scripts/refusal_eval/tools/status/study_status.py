"""A study's status: its cells, its engine loads, what failed, and its report."""

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from refusal_eval.config.activation_use import activation_uses
from refusal_eval.config.kinds import STATUS_PARTS
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import shown_path
from refusal_eval.program.page_part import PagePart
from refusal_eval.program.snakemake_summary import MadeFiles, summary
from refusal_eval.study.files import file_of, made_files
from refusal_eval.study.study import Study
from refusal_eval.tools.status.cell_states import Cells, CellStatus
from refusal_eval.tools.status.status_jobs import (
    DONE,
    FAILED,
    CurrentFiles,
    Job,
    Trouble,
    batches,
    capture_jobs,
    captures,
    engine_loads,
    failures,
)
from refusal_eval.workflow.left_over import left_over

INCOMPLETE = "incomplete"


@dataclass(frozen=True)
class ReportStatus:
    """Tables, figures and manifest: the expected number, the missing or outdated ones, and leftovers."""

    files: int
    missing: int
    old: int
    unknown: str | None = None  # why it is not known, where the study cannot be planned
    left: Sequence[str] = ()  # tables, figures and the like that the study no longer makes
    remade: int = 0  # files of cells that are there, and that the next run would make again


@dataclass(frozen=True)
class StudyStatus:
    """How far a study is."""

    study: str
    results: str
    state: str  # done; failed: a job or an engine load failed; or incomplete
    cells: Sequence[CellStatus]  # the cells, answers first
    # Of each use of activations that steps wait for: whether each thing is made, by name, and the job that failed, runs
    # or stopped, of those that are not.
    made: Mapping[str, Mapping[str, bool]]
    stuck: Mapping[str, Mapping[str, Job]]
    troubles: Sequence[Trouble]  # what failed, runs, stopped or was rejected
    report: ReportStatus | None  # the report; None until all cells are done, or when only some were asked for
    parts: Mapping[str, PagePart] = field(default_factory=dict)  # what features add, by name

    def as_json(self) -> dict[str, Any]:
        """Return the same as plain JSON values; jobs are written as `rule name`."""
        value = asdict(self)
        for cell in value["cells"]:
            cell["trouble"] = " ".join(cell["trouble"]).strip() if cell["trouble"] else None
        value |= value.pop("made")
        value |= {name: part["values"] for name, part in value.pop("parts").items()}
        for use, jobs in value.pop("stuck").items():
            value[f"open_{use}"] = {name: " ".join(job) for name, job in jobs.items()}
        return value


def study_status(
    config: Mapping[str, Any],
    now: float,
    only: Collection[str] = (),
    report_of: Callable[[], ReportStatus] | None = None,
    current_of: CurrentFiles = tuple,
) -> StudyStatus:
    """Return the progress of a study. Nothing is written.

    Args:
        now: the present time (seconds since 1970).
        only: the cells (`model/split`) to report; all if empty.
        report_of: returns the progress of the report; called only once all cells are done.
        current_of: returns the files that Snakemake would not make again; called at most once, and only if a file is
            older than its inputs.

    Raises:
        OSError: if the store cannot be read.
    """
    study, current = Study(config), functools.cache(current_of)
    troubles, loads = failures(study) | captures(study, now), engine_loads(study, now, current)
    cells = Cells(study, troubles, loads, current).statuses(only)
    behind = {cell.cell for cell in cells if not cell.current}
    for batch, of_batch in batches(study).items():
        for load in loads[batch]:
            # How a load ended matters only while a cell waits for it.
            if load.trouble and (load.lasting or not behind.isdisjoint(of_batch)):
                troubles[load.trouble.job] = load.trouble
    if only:
        needed = {cell.trouble for cell in cells}
        troubles = {job: trouble for job, trouble in troubles.items() if job in needed}
    finished = all(cell.state == DONE for cell in cells)
    report = report_of() if report_of and finished and not only else None
    behind_report = report and (report.missing + report.old + report.remade or report.unknown)
    state = INCOMPLETE if behind_report or not finished else DONE
    if any(trouble.state == FAILED for trouble in troubles.values()):
        state = FAILED
    made, stuck = dict[str, dict[str, bool]](), dict[str, dict[str, Job]]()
    for use in (use.name for use in activation_uses() if use.done):
        made[use], stuck[use] = made_things(study, use), {}
        for name in (name for name, done in made[use].items() if not done):
            jobs = [*sorted(capture_jobs(study, use, name)), (file_of(use).logs, name)]
            if in_trouble := [job for job in jobs if job in troubles]:
                stuck[use][name] = in_trouble[-1]
    results, every = shown_path(study.paths.results), list(troubles.values())
    parts = {name: part for name in STATUS_PARTS.names() if (part := STATUS_PARTS.get(name)(study)) is not None}
    return StudyStatus(study.name, results, state, cells, made, stuck, every, report, parts)


def made_things(study: Study, use: str) -> dict[str, bool]:
    """Return whether each thing that a use of activations makes is there, by its name."""
    file = file_of(use)
    paths = {names: study.paths.of(use, **dict(zip(file.wildcards, names, strict=True))) for names in file.names(study)}
    return {"/".join(names): Path(path).is_file() for names, path in paths.items()}


def report_status(config: Mapping[str, Any], study_file: Path, root: Path) -> ReportStatus:
    """Return how many files made from verdicts are expected, and how many are missing or outdated."""
    study = Study(config)
    try:
        planned = summary(study_file, root)
    except UserError as error:
        return ReportStatus(0, 0, 0, str(error))
    rows, report, of_cells = (
        {Path(path): row for path, row in made_files(study).items()},
        list[MadeFiles](),
        list[MadeFiles](),
    )
    for file in planned:
        if Path(file.path).is_relative_to(study.paths.results):
            row = rows.get(Path(file.path))
            (report if row is None or row.of_report else of_cells).append(file)
    missing = sum(not Path(file.path).exists() for file in report)
    left = left_over(study)
    old = sum(not file.current for file in report) - missing
    remade = sum(not file.current and Path(file.path).exists() for file in of_cells)
    return ReportStatus(len(report), missing, old, left=left, remade=remade)


def files_left_alone(study_file: Path, root: Path) -> set[str]:
    """Return the files of a study that Snakemake would leave as they are; none if the study cannot be planned."""
    try:
        return {file.path for file in summary(study_file, root) if file.current}
    except UserError:
        return set()
