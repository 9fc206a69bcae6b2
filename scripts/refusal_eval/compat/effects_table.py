"""The table `protocol_effects`: what each choice of the published code does to each cell."""

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from refusal_eval.compat.protocol_effects import CHOICES
from refusal_eval.core.files import read_json
from refusal_eval.report.paper.display import NO_DATA, interval, number, ordered, percent, points
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_data import Made, TableData

Cell = Mapping[str, Any]  # a file under published/scores/

_SHARES = ("rate", "refusing", "mixed", "complying")


def effects_frame(cells: Iterable[Cell]) -> pd.DataFrame:
    """Return one row per judge, model, split and choice: its numbers, and `refusing` less that of our own scoring."""
    rows = []
    for cell in sorted(cells, key=lambda cell: (cell["judge"], cell["model"], cell["split"])):
        names = {name: cell[name] for name in ("judge", "model", "split", "samples")}
        own = cell["choices"][0]["refusing"]
        for choice in cell["choices"]:
            change = {"refusing_change": _difference(choice["refusing"], own)}
            rows.append({**names, **choice, **change})
    return pd.DataFrame(rows, dtype=object)


def protocol_effects(data: TableData) -> Made:
    """Return a row per judge, model, split and choice, in percent of the prompts that have a score."""
    cells, show = [read_json(path) for path in data.files["published"]], data.labels
    by_name = {(cell["judge"], cell["model"], cell["split"]): cell for cell in cells}
    orders = [
        ordered((name[i] for name in by_name), data.order(n)) for i, n in enumerate(("judges", "models", "splits"))
    ]
    rows = []
    for name in sorted(by_name, key=lambda name: [order.index(part) for order, part in zip(orders, name, strict=True)]):
        first = by_name[name]["choices"][0]
        for choice in by_name[name]["choices"]:
            rows.append([show.judge(name[0]), show.model(name[1]), show.split(name[2]), *_cells(choice, first)])
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
    ]
    caption = "What each choice of the published scoring does to each cell."
    return effects_frame(cells), [Table("protocol_effects", caption, header, rows, notes, keys=4, per_block=5)]


def _cells(choice: Mapping[str, Any], own: Mapping[str, Any]) -> list[str]:
    if choice["n_scored"] is None:
        return [choice["choice"], *[NO_DATA] * 9]
    rate, *bands = (percent(choice[name]) for name in _SHARES)
    change = _difference(choice["refusing"], own["refusing"])
    return [
        choice["choice"],
        f"{choice['n_scored']} of {choice['n']}",
        str(choice["n_votes"]),
        rate,
        number(choice["c"], 3),
        bands[0],
        points(change),
        *bands[1:],
        interval(choice["low"], choice["high"]) or NO_DATA,
    ]


def _difference(value: float | None, other: float | None) -> float | None:
    return None if value is None or other is None else value - other
