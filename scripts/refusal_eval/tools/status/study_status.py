"""A study's status: its cells, its engine loads, what failed, and its report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from refusal_eval.study.batches import Cell
from refusal_eval.tools.status.cell_states import Cells, CellStatus
from refusal_eval.tools.status.job_states import FAILED, Job, Outputs, Trouble, modified, shown
from refusal_eval.tools.status.load_states import DONE, Load, batches, engine_loads
from refusal_eval.workflow.comparing_stage import Comparisons
from refusal_eval.workflow.correcting import Correcting
from refusal_eval.workflow.estimating import Estimating
from refusal_eval.workflow.figures_stage import Figures
from refusal_eval.workflow.reporting import Reporting
from refusal_eval.workflow.results_stage import Results
from refusal_eval.workflow.tradeoff_stage import TradeOff

INCOMPLETE = "incomplete"


@dataclass(frozen=True)
class ReportStatus:
    """Tables, figures and manifest: how many files there are to be, and how many are missing or outdated."""

    files: int
    missing: int
    old: int


@dataclass(frozen=True)
class StudyStatus:
    """How far a study is.

    Attributes:
        study: its name.
        results: its folder.
        state: done; failed: a job or an engine load failed; or incomplete.
        cells: the cells, answers first.
        troubles: what failed, runs, stopped or was rejected.
        report: the report; None when only some cells were asked for.
    """

    study: str
    results: str
    state: str
    cells: Sequence[CellStatus]
    troubles: Sequence[Trouble]
    report: ReportStatus | None

    def as_json(self) -> dict[str, Any]:
        """Return the same as plain JSON values; jobs are written as `rule name`."""
        value = asdict(self)
        for cell in value["cells"]:
            cell["trouble"] = " ".join(cell["trouble"]).strip() if cell["trouble"] else None
        return value


def study_status(
    config: Mapping[str, Any], now: float, wanted: Callable[[str, str], bool] | None = None
) -> StudyStatus:
    """Return how far a study is. Nothing is written.

    Args:
        config: the validated study.
        now: the present time (seconds since 1970).
        wanted: which (model, split) to look at, with what concerns them; None for the whole study.

    Raises:
        OSError: if the store cannot be read.
    """
    outputs = Outputs(config)
    troubles = outputs.failures()
    loads = engine_loads(config, now)
    cells = Cells(config, outputs, troubles, loads, wanted or (lambda model, split: True)).statuses()
    behind = {Cell(cell.model, cell.split, cell.judge) for cell in cells if not cell.current}
    for stage, of_stage in batches(config).items():
        for batch, of_batch in of_stage.items():
            troubles |= _of_loads(loads[stage, batch], unfinished=not behind.isdisjoint(of_batch))
    if wanted is not None:
        needed = {cell.trouble for cell in cells}
        troubles = {job: trouble for job, trouble in troubles.items() if job in needed}
    report = report_status(config, outputs) if wanted is None else None
    if any(trouble.state == FAILED for trouble in troubles.values()):
        state = FAILED
    else:
        finished = all(cell.state == DONE for cell in cells)
        state = DONE if finished and (report is None or not report.missing + report.old) else INCOMPLETE
    return StudyStatus(config["study"], shown(outputs.paths.results), state, cells, list(troubles.values()), report)


def report_status(config: Mapping[str, Any], outputs: Outputs) -> ReportStatus:
    """Return how many files of the report are there, and newer than the scores."""
    reporting, results = Reporting(config), outputs.paths.results
    scores = reporting.scores(None)
    made_from = [
        (reporting.tables("csv", "md", "tex"), [*scores, *reporting.cards(None)]),
        ([f"{results}/manifest.json"], reporting.tables("csv")),
        *((targets, scores if newer else []) for targets, newer in analyses(config)),
    ]
    missing = old = count = 0
    for files, inputs in made_from:
        times = [modified(file) for file in files]
        newest = max((time for path in inputs if (time := modified(path)) is not None), default=0.0)
        count += len(files)
        missing += times.count(None)
        old += sum(time is not None and time < newest for time in times)
    return ReportStatus(count, missing, old)


def analyses(config: Mapping[str, Any]) -> list[tuple[list[str], bool]]:
    """Return the files that each analysis makes, and whether it makes them of the scores (else of what lies before)."""
    of_scores = (Figures(config), Comparisons(config), TradeOff(config), Correcting(config), Results(config))
    return [(Estimating(config).targets(None), False), *((stage.targets(None), True) for stage in of_scores)]


def _of_loads(loads: Iterable[Load], unfinished: bool) -> dict[Job, Trouble]:
    """Return what there is to tell of a batch's loads. How a load ended matters only while a cell waits for it."""
    told = [(load.trouble if unfinished or load.damaged else None) or load.rejection() for load in loads]
    return {trouble.job: trouble for trouble in told if trouble}
