"""The published library's layout as a form of `refusal-eval export`."""

from pathlib import Path

from refusal_eval.features.published.published_export import check, export
from refusal_eval.program.exporter import ALL, ANSWERS, Exporter, ExportOrder, Level


class PublishedExporter(Exporter):
    """All cells of a study under one judge in the published library's layout."""

    name = "published"
    writes = "MODEL/SPLIT/ with four files, the published library's layout"
    levels = (ANSWERS, ALL)  # it has no place for what judges wrote, and the same files at both

    @classmethod
    def own_folder(cls, results: Path, level: Level) -> Path:
        return results / "published" / "export"

    def export(self, order: ExportOrder) -> list[str]:
        count = export(order.config, order.judge or order.config["primary_judge"], order.folder, order.current)
        return [f"{count} cells in {order.folder}. They hold prompts and answers: do not publish them."]

    def check(self, folder: Path) -> list[str]:
        return check(folder)
