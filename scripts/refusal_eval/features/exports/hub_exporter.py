"""A folder that `datasets.load_dataset` reads, and that the hub shows as a data set."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from refusal_eval.config.datasets import Split
from refusal_eval.core.files import shown_path, utf8, write_text
from refusal_eval.core.version import VERSION
from refusal_eval.features.exports import hub_tables
from refusal_eval.features.exports.exported_cells import StudyExport, refuse_there, whole_folder
from refusal_eval.program.exporter import LABELS, Exporter, ExportOrder, Level
from refusal_eval.program.text_templates import render_template
from refusal_eval.report.results.dictionary import COLUMNS
from refusal_eval.report.results.results_files import text_of

CARD = "README.md"
Batches = Iterable[Mapping[str, Any]]


class HubExporter(Exporter):
    """A data set with the configurations answers, states, verdicts and results."""

    name = "hf"
    writes = "tables with a card, as the Hugging Face hub and `datasets` read them"

    def export(self, order: ExportOrder) -> list[str]:
        refuse_there(order.folder)
        export, level = StudyExport(order), order.level
        forms = {"states": hub_tables.STATES, "verdicts": hub_tables.verdict_form(level)}
        if level != LABELS:
            forms = {"answers": hub_tables.ROWS, **forms}
        counts = dict.fromkeys(forms, 0)
        with whole_folder(order.folder) as folder:
            with contextlib.ExitStack() as stack:
                files = {name: stack.enter_context(_parquet(folder, name, form)) for name, form in forms.items()}
                for cell in export.cells():
                    made: dict[str, Batches] = {
                        "states": hub_tables.states(cell),
                        "verdicts": hub_tables.verdicts(cell, level),
                    }
                    if level != LABELS:
                        made["answers"] = hub_tables.rows(cell, level)
                    for name, file in files.items():
                        table = pa.Table.from_pylist([_clean(row) for row in made[name]], forms[name])
                        counts[name] += len(table)
                        file.write_table(table)
            counts["results"] = _results(folder, export)
            write_text(folder / CARD, _card(export, counts, level))
        held = "It holds no prompts and no answers."
        if level != LABELS:
            held = "It holds prompts and answers: do not publish it before you know that you may."
        made_of = ", ".join(f"{count} {name}" for name, count in counts.items())
        return [f"{made_of} in {shown_path(order.folder)}. {held}"]


@contextlib.contextmanager
def _parquet(folder: Path, name: str, form: pa.Schema) -> Iterator[pq.ParquetWriter]:
    path = folder / "data" / f"{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(path, form, compression="zstd") as writer:
        yield writer


def _results(folder: Path, export: StudyExport) -> int:
    """The rows of the results table, with the columns of its dictionary but those that name files of the study."""
    kinds = {"text": hub_tables.TEXT, "number": hub_tables.REAL, "count": hub_tables.WHOLE}
    columns = [column for column in COLUMNS if column.name != "source"]
    form = pa.schema([(column.name, kinds[column.kind]) for column in columns])
    found = []
    for row in export.results():
        values = {column.name: getattr(row, column.name) for column in columns}
        values |= {column.name: text_of(values[column.name]) or None for column in columns if column.kind == "text"}
        found.append(values | {"flags": " ".join(row.flags) or None})
    with _parquet(folder, "results", form) as file:
        file.write_table(pa.Table.from_pylist(found, form))
    return len(found)


def _clean(value: Any) -> Any:
    """Return a value without halves of surrogate pairs, which are no text."""
    if isinstance(value, str):
        return utf8(value).decode()
    if isinstance(value, Mapping):
        return {name: _clean(one) for name, one in value.items()}
    return [_clean(one) for one in value] if isinstance(value, list) else value


def _card(export: StudyExport, counts: Mapping[str, int], level: Level) -> str:
    study = export.study
    values = {
        "study": study,
        "judges": export.judges,
        "counts": counts,
        "level": level,
        "version": VERSION,
        "first": next(iter(counts)),
        "terms": {name: _terms(split) for name, split in study.splits.items()},
    }
    return render_template(Path(__file__).with_name("card.md.j2"), values)


def _terms(split: Split) -> str:
    """What the catalogue says of the licence of a split."""
    said = [split.licence or "none stated"]
    said += [f"of its source: {split.licence_of_origin}"] if split.licence_of_origin else []
    return "; ".join([*said, *([f"terms: {split.terms}"] if split.terms else [])])
