"""What a results table holds: its columns, what each estimand is and what flags mean, out of dictionary.yaml and
the files of that name in the folders of features.

Made of the same: a study's data dictionary (results_table/dictionary.md) and the page of all estimands
(docs/reference/estimands.md).
"""

import functools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml

from refusal_eval.config.kinds import feature_files
from refusal_eval.report.paper.display import MARKS
from refusal_eval.report.paper.markup import markdown_escaped
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.flags import UNFILTERED, UNSTEERED, UNTRANSFORMED
from refusal_eval.stats.estimates.intervals import RATE_INTERVAL
from refusal_eval.stats.estimates.model_alone import MODEL_ALONE, is_of_model_alone

PATH = Path(__file__).with_suffix(".yaml")
UNKNOWN = "not described"
# Together they say which number it is: no two rows agree in all of them.
KEY = ("estimand", "judge", "model", "split", "pool", "category", "reading", "parameter", "samples")
_KINDS = {"text": "text", "number": "number", "count": "whole number"}


class DictionaryColumn(NamedTuple):
    """A column: `text`, `number` (a float) or `count` (a whole number); all but the estimand may be empty."""

    name: str
    kind: Literal["text", "number", "count"]
    meaning: str


class EstimandDefinition(NamedTuple):
    """What an estimand is. A name may hold `@K`, for which the table has the number of samples."""

    name: str
    unit: str
    meaning: str
    formula: str
    source: str
    interval: str = "None."
    between_k: str = ""  # whether it may be compared between different K; empty where the question does not arise


class Subject(NamedTuple):
    """A group of estimands, in the order of the page, and the page of docs/ that explains them."""

    title: str
    page: str
    definitions: tuple[EstimandDefinition, ...]


def _load(path: Path) -> dict[str, Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return dict(yaml.load(path.read_text(encoding="utf-8"), Loader=loader))


_SAID = _load(PATH)
COLUMNS = tuple(DictionaryColumn(name, **said) for name, said in _SAID["columns"].items())
# flag: symbol in tables and figures (empty where it has none), meaning
FLAGS = {**MARKS, **{flag: ("", meaning) for flag, meaning in _SAID["flags"].items()}}


_OF_SOME_STUDIES = (UNFILTERED, UNTRANSFORMED, UNSTEERED)


def subjects() -> tuple[Subject, ...]:
    return _subjects(PATH, *feature_files(PATH.name))


def definitions() -> dict[str, EstimandDefinition]:
    return {definition.name: definition for subject in subjects() for definition in subject.definitions}


@functools.cache
def _subjects(kernel: Path, *others: Path) -> tuple[Subject, ...]:
    found: dict[str, Subject] = {}
    for said in (_load(kernel)["estimands"], *map(_load, others)):
        for title, subject in said.items():
            own = tuple(EstimandDefinition(name, **_name_intervals(facts)) for name, facts in subject["names"].items())
            before = found[title].definitions if title in found else ()
            found[title] = Subject(title, subject["page"], (*before, *own))
    return tuple(found.values())


def _name_intervals(facts: dict[str, str]) -> dict[str, str]:
    """Insert the name of the interval for rates, which the module that computes it defines."""
    return {key: text.replace("RATE_INTERVAL", RATE_INTERVAL) for key, text in facts.items()}


def pattern_of(estimand: str) -> str:
    """Return an estimand's name with its K replaced by `@K`."""
    return re.sub(r"@\d+", "@K", estimand)


def definition_of(estimand: str) -> EstimandDefinition | None:
    """Return the definition of an estimand, None if there is none.

    What is of the model alone, and has no definition of its own, has that of the number as a user meets it.
    """
    name, every = pattern_of(estimand), definitions()
    other = every.get(name.removesuffix(MODEL_ALONE))
    if name in every or other is None:
        return every.get(name)
    return other._replace(name=name, meaning=f"{other.meaning} {_SAID['model_alone'].format(other=other.name)}")


def dictionary(estimates: Iterable[Estimate], study: str) -> str:
    """Return what the columns, estimands and marks of a study's results table mean, and how many rows there are."""
    found = list(estimates)
    counts = Counter(pattern_of(estimate.estimand) for estimate in found)
    parts = [
        f"# Data dictionary of the results of {markdown_escaped(study)}",
        f"`results.csv` and `results.parquet` hold the same {sum(counts.values())} rows, one number each. In the CSV "
        "an empty field means that there is no value, and an apostrophe precedes a text that a spreadsheet would "
        "compute. Numbers have ten significant digits; the paper tables round them. "
        f"No two rows agree in all of {', '.join(f'`{name}`' for name in KEY)}.",
        "## Columns",
        _table(["Column", "Type", "Meaning"], [[f"`{name}`", _KINDS[kind], said] for name, kind, said in COLUMNS]),
        "## Estimands",
        "`@K` stands for the number of answers per prompt.",
        *(_estimand(name, counts[name]) for name in sorted(counts)),
        "## Marks",
        "A number from several cells has the marks of all of them, except that `few_clusters` refers to its own "
        "clusters. Tables and figures show marks with a symbol at the number; tables explain the others in words.",
        _table(["Flag", "Symbol", "Meaning"], [[f"`{flag}`", *said] for flag, said in _flags_of(found).items()]),
    ]
    return "\n\n".join(parts) + "\n"


def _flags_of(estimates: Sequence[Estimate]) -> dict[str, tuple[str, str]]:
    """Return symbol and meaning of the flags that a dictionary explains; those of some studies where they are used."""
    used = {flag for estimate in estimates for flag in estimate.flags}
    found = {flag: said for flag, said in FLAGS.items() if flag not in _OF_SOME_STUDIES or flag in used}
    own = _SAID["flags_of_model_alone"] if any(map(is_of_model_alone, estimates)) else {}
    return {flag: (symbol, own.get(flag, meaning)) for flag, (symbol, meaning) in found.items()}


def missing_definitions(estimates: Iterable[Estimate]) -> list[str]:
    """Return the estimands and flags without a definition, sorted."""
    found = list(estimates)
    names = {pattern_of(estimate.estimand) for estimate in found if definition_of(estimate.estimand) is None}
    return sorted(names | {flag for estimate in found for flag in estimate.flags if flag not in FLAGS})


def _estimand(name: str, rows: int) -> str:
    definition = definition_of(name)
    if definition is None:
        return f"### `{name}`\n\n{UNKNOWN.capitalize()}. {rows} rows."
    facts = {
        "Unit": definition.unit,
        "Formula": definition.formula,
        "Interval": definition.interval,
        "Between different K": definition.between_k,
        "Source": definition.source,
        "Rows": rows,
    }
    lines = (f"- {what}: {said}" for what, said in facts.items() if said)
    return f"### `{definition.name}`\n\n{definition.meaning}\n\n" + "\n".join(lines)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
