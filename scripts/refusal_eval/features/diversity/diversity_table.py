"""The tables of the diversity of prompts: of splits, and of their categories."""

from collections.abc import Mapping

import pandas as pd

from refusal_eval.config.report_sections import RATES
from refusal_eval.features.diversity.measure_diversity import AT_SIZE, MEASURES
from refusal_eval.report.paper.display import NO_DATA
from refusal_eval.report.paper.filled_notes import filled_notes
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_data import TableData, TableParts
from refusal_eval.report.paper.table_kind import StudyTable
from refusal_eval.report.paper.table_notes import value_text
from refusal_eval.report.results.results_files import estimates_in
from refusal_eval.stats.estimates.estimate import Estimate

_COLUMNS = ("split", "category", "estimand", "parameter", "value", "low", "high", "level", "n_prompts", "n_clusters")
_NAMES = {"self_bleu": "Self-BLEU", "distinct_2": "Distinct-2"}
MeasureKey = tuple[str, str, str | None]  # estimand, split, category


def diversity(data: TableData) -> TableParts:
    """Return the measures of each split, and of each category in which some split has two prompts."""
    content = data.found("diversity", "size")
    found = estimates_in(content)
    by_key: dict[MeasureKey, Estimate] = {(row.estimand, str(row.split), row.category): row for row in found}
    splits = list(data.asked["diverse"])
    frame = pd.DataFrame([[getattr(row, name) for name in _COLUMNS] for row in found], columns=_COLUMNS, dtype=object)
    tables = [_of_splits(by_key, splits, content["size"], data)]
    if any(row.category is not None and (row.n_prompts or 0) > 1 for row in found):
        tables.append(_of_categories(by_key, splits, data))
    return frame, tables


def _of_splits(by_key: Mapping[MeasureKey, Estimate], splits: list[str], size: int, data: TableData) -> Table:
    differ = size > 1 and len({by_key["self_bleu", split, None].n_prompts for split in splits}) > 1
    header = ["Split", "Prompts", *(_NAMES[name] for name in MEASURES)]
    header += [f"{_NAMES[name]},\nat {size} prompts" for name in MEASURES] if differ else []
    rows = []
    for split in splits:
        wanted = [*MEASURES, *(AT_SIZE.values() if differ else [])]
        cells = [_text(by_key.get((name, split, None))) for name in wanted]
        rows.append([data.labels.split(split), str(by_key["self_bleu", split, None].n_prompts), *cells])
    ends = [by_key[name, split, None].low for name in MEASURES for split in splits]
    level = f"{100 * data.asked['level']:g}" if any(end is not None for end in ends) else ""
    notes = filled_notes("diversity/diversity", data.labels, level=level, size=size if differ else 0)
    return Table("diversity", "How much the prompts of a split repeat each other.", header, rows, notes)


def _of_categories(by_key: Mapping[MeasureKey, Estimate], splits: list[str], data: TableData) -> Table:
    categories = sorted({category for _, _, category in by_key if category is not None})
    header, groups = ["Category"], list[str]()
    for split in splits:
        name = data.labels.split(split)
        header += [f"{name},\nprompts", *(f"{name},\n{_NAMES[of]}" for of in MEASURES)]
        groups += [name] * (1 + len(MEASURES))
    rows = []
    for category in categories:
        cells = list[str]()
        for split in splits:
            own = [by_key.get((of, split, category)) for of in MEASURES]
            cells += ["0" if own[0] is None else str(own[0].n_prompts), *map(_text, own)]
        rows.append([category, *cells])
    notes = filled_notes("diversity/diversity", data.labels, level="", size=0)
    caption = "How much the prompts of a category repeat each other."
    return Table("diversity-categories", caption, header, rows, notes, per_block=6, groups=groups)


def _text(row: Estimate | None) -> str:
    return NO_DATA if row is None else value_text(row.value, (row.low, row.high))


class DiversityTable(StudyTable):
    """How much the prompts of splits repeat each other."""

    name = "diversity"
    of_analysis = "diversity"
    needs = ("diversity",)
    shows = ("splits",)
    report = (RATES, "Diversity of prompts")
    make = staticmethod(diversity)
