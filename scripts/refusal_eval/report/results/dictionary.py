"""The data dictionary of a results table, in Markdown, from the definitions that the table itself is made with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.report.paper.markup import markdown_escaped
from refusal_eval.report.results.result_columns import COLUMNS, KEY
from refusal_eval.report.results.definitions import definition_of, pattern_of
from refusal_eval.report.results.flag_meanings import FLAGS

_KINDS = {"text": "text", "number": "number", "count": "whole number"}
UNKNOWN = "not described"


def dictionary(estimates: Iterable[Estimate], study: str) -> str:
    """Return what the columns, estimands and marks of a study's results table mean, and how many rows there are."""
    counts = Counter(pattern_of(estimate.estimand) for estimate in estimates)
    parts = [
        f"# Data dictionary of the results of {markdown_escaped(study)}",
        f"`results.csv` and `results.parquet` hold the same {sum(counts.values())} rows, one number each. In the CSV "
        "an empty field means that there is nothing, and an apostrophe stands before a text that a spreadsheet would "
        "compute. Numbers have ten significant digits; the paper tables round them. "
        f"No two rows agree in all of {', '.join(f'`{name}`' for name in KEY)}.",
        "## Columns",
        _table(
            ["Column", "Type", "Meaning"],
            [[f"`{column.name}`", _KINDS[column.kind], column.meaning] for column in COLUMNS],
        ),
        "## Estimands",
        "`@K` stands for the number of answers per prompt.",
        *(_estimand(name, counts[name]) for name in sorted(counts)),
        "## Marks",
        "A number that is made of several cells has the marks of all of them; `few_clusters` is of its own clusters. "
        "Tables and figures show those with a symbol at the number; of the others tables say in words what they mean.",
        _table(
            ["Flag", "Symbol", "Meaning"], [[f"`{flag}`", symbol, meaning] for flag, (symbol, meaning) in FLAGS.items()]
        ),
    ]
    return "\n\n".join(parts) + "\n"


def undescribed(estimates: Iterable[Estimate]) -> list[str]:
    """Return the estimands and flags that nobody has written down, sorted."""
    found = list(estimates)
    names = {pattern_of(estimate.estimand) for estimate in found if definition_of(estimate.estimand) is None}
    return sorted(names | {flag for estimate in found for flag in estimate.flags if flag not in FLAGS})


def _estimand(name: str, rows: int) -> str:
    definition = definition_of(name)
    if definition is None:
        return f"### `{name}`\n\n{UNKNOWN.capitalize()}. {rows} rows."
    return (
        f"### `{name}`\n\n{definition.meaning}\n\n- Unit: {definition.unit}\n- Formula: {definition.formula}\n"
        f"- Source: {definition.source}\n- Rows: {rows}"
    )


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
