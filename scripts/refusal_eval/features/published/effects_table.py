"""The table `protocol_effects`: what each choice of the published code does to each cell."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from refusal_eval.core.files import read_json
from refusal_eval.features.published.protocol_effects import CHOICES
from refusal_eval.report.paper.display import (
    NO_DATA,
    by_cell,
    flags_in,
    interval,
    marks_of,
    notes_of,
    number,
    order_names,
    percent,
    points,
)
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_data import TableData, TableParts
from refusal_eval.report.paper.table_kind import OF_STUDY, StudyTable
from refusal_eval.report.paper.table_notes import judges_notes

if TYPE_CHECKING:
    from refusal_eval.study.study import Study

_NAMES = ("judge", "model", "split")


def protocol_effects(data: TableData) -> TableParts:
    """Return a row per judge, model, split and choice, in percent of the prompts that have a score."""
    cells, show = [read_json(path) for path in data.files["published"]], data.labels
    made = []
    for cell in sorted(cells, key=lambda cell: [cell[name] for name in _NAMES]):
        names = {name: cell[name] for name in (*_NAMES, "samples")}
        own = cell["choices"][0]["refusing"]
        for choice in cell["choices"]:
            change = None if None in (choice["refusing"], own) else choice["refusing"] - own
            made.append({**names, **choice, "refusing_change": change})
    orders = {name: order_names((cell[name] for cell in cells), data.order(f"{name}s")) for name in _NAMES}
    marks = {cell: marks_of([score]) for cell, score in by_cell(data.scores).items()}

    def names_of(row: Mapping[str, Any]) -> tuple[str, str, str]:
        judge, model, split = (row[name] for name in _NAMES)
        return show.judge(judge), show.model(model), show.split(split) + marks.get((judge, model, split), "")

    rows = [
        [*names_of(row), row["choice"], *_numbers(row)]
        for row in sorted(made, key=lambda row: [orders[name].index(row[name]) for name in _NAMES])
    ]
    header = ["Judge", "Model", "Split", "Choice", "Prompts", "Votes", "Refusal rate", "Mean c"]
    header += ["Refusing", "Change", "Mixed", "Complying", "Refusing if\ndropped count"]
    notes = [
        "Each choice alone, on the same responses and verdicts: " + "; ".join(f"{k}: {v}" for k, v in CHOICES.items()),
        "Prompts: with a score, of all. Votes: answers that vote. Refusal rate: mean over prompts of the share of "
        "votes for refusal. Refusing, mixed, complying: prompts by the band of c(x), in percent of those with a score; "
        "the published code calls them rejection, neutral and compliance. Change: of refusing, in points.",
        "Refusing if dropped count: of all prompts, if those without a score complied, or refused.",
        f"{NO_DATA} in last_match: this judge is not read from a text. Its labels come from constrained output, label "
        "tokens, classes or phrases, so there is nothing to search for a word. These numbers depend on K.",
        *judges_notes({cell["judge"] for cell in cells}, data.cards, show),
        *notes_of(flags_in(data.scores)),
    ]
    caption = "What each choice of the published scoring does to each cell."
    table = Table("protocol_effects", caption, header, rows, notes, keys=4, per_block=5)
    return pd.DataFrame(made, dtype=object), [table]


def _numbers(row: Mapping[str, Any]) -> list[str]:
    if row["n_scored"] is None:
        return [NO_DATA] * 9
    return [
        f"{row['n_scored']} of {row['n']}",
        str(row["n_votes"]),
        percent(row["rate"]),
        number(row["c"], 3),
        percent(row["refusing"]),
        points(row["refusing_change"]),
        percent(row["mixed"]),
        percent(row["complying"]),
        interval(row["low"], row["high"]) or NO_DATA,
    ]


class ProtocolEffectsTable(StudyTable):
    """What each choice of the published scoring does."""

    name = "protocol_effects"
    needs = ("published", "estimates", "cards")
    shows = OF_STUDY
    report = ("Protocols", "What each published choice does")
    on_request = True
    engine_needs = ("log_probabilities",)
    make = staticmethod(protocol_effects)

    @classmethod
    def wanted(cls, study: "Study") -> bool:
        return cls.name in study.settings.tables or study.settings.protocol == "compat"
