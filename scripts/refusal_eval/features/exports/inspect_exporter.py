"""Logs of inspect: one for each cell, with all its answers."""

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from refusal_eval.core.files import shown_path
from refusal_eval.features.exports.exported_cells import ExportedCell, StudyExport, refuse_there, whole_folder
from refusal_eval.features.exports.inspect_log import header_of, write_log
from refusal_eval.features.exports.inspect_sample import sample_of
from refusal_eval.program.exporter import LABELS, Exporter, ExportOrder, Level
from refusal_eval.program.page_lines import many


class InspectExporter(Exporter):
    """Logs that inspect_ai 0.3 reads and its viewer shows."""

    name = "inspect"
    writes = "MODEL/SPLIT.eval, logs of inspect"

    def export(self, order: ExportOrder) -> list[str]:
        refuse_there(order.folder)
        export = StudyExport(order)
        count = 0
        with whole_folder(order.folder) as folder:
            created = _time(export.results_file)
            for cell in export.cells():
                samples = list(_samples(cell, order.level))
                header = header_of(export, cell, samples, order.level, created)
                write_log(folder / cell.model / f"{cell.split}.eval", header, samples)
                count += 1
        held = "They hold no prompts and no answers."
        if order.level != LABELS:
            held = "They hold prompts and answers: do not publish them."
        shown = shown_path(order.folder)
        return [f"{many(count, 'log')} in {shown}. {held}", f"To look at them: inspect view start --log-dir {shown}"]


def _samples(cell: ExportedCell, level: Level) -> Iterator[dict[str, Any]]:
    """Yield a sample for each answer; its turns are one."""

    found = dict[tuple[str, int], list[Any]]()
    for row in cell.answers:
        found.setdefault((row["prompt_id"], row["sample"]), []).append(row)
    for rows in found.values():
        yield sample_of(cell, sorted(rows, key=lambda row: row["turn"]), level)


def _time(path: Path) -> str:
    """When the results were made."""
    made = datetime.datetime.fromtimestamp(int(path.stat().st_mtime), datetime.UTC)
    return made.isoformat()
