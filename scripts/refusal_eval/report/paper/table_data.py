"""The inputs of one table, read from files on first use."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json
from refusal_eval.report.paper.display import Card, Labels, Score
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.results.cells import cell_scores
from refusal_eval.report.results.results_files import estimates_in, read_results
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.model_alone import unblocked

TableParts = tuple[pd.DataFrame, list[Table]]  # what a kind of table gives: the CSV, and the tables that show it


@dataclass
class TableData:
    """The inputs of one table."""

    asked: Mapping[str, Any]  # what it shows of the study, in the study's order (`workflow.tables_stage.params`)
    files: Mapping[str, Sequence[str]] = field(default_factory=dict)  # paths by noun, as its kind needs them

    @functools.cached_property
    def labels(self) -> Labels:
        """Display names of models, splits, judges and gold sets."""
        return Labels(**self.asked["labels"])

    @functools.cached_property
    def scores(self) -> list[Score]:
        """The cells it shows: the primary judge's if `asked` names one, else all judges'."""
        return cell_scores(self.estimates, self.asked)

    @functools.cached_property
    def estimates(self) -> list[Estimate]:
        """The results table's rows on its models and judges."""
        found = [row for path in self.files["estimates"] for row in estimates_in(read_json(path))]
        return [*found, *unblocked(found)]

    @functools.cached_property
    def cards(self) -> list[Card]:
        return [read_json(path) for path in self.files["cards"]]

    @functools.cached_property
    def results(self) -> list[Estimate]:
        return read_results(Path(self.files["results"][0]).read_text(encoding="utf-8"))

    def found(self, noun: str, *keys: str) -> Any:
        """Return the result of an analysis.

        Args:
            keys: what it must have beside its estimates.

        Raises:
            UserError: if it lacks one: an earlier version made it, and Snakemake was told not to see that code changed.
        """
        path = self.files[noun][0]
        result = read_json(path)
        if lacking := [key for key in keys if key not in result]:
            raise UserError(
                f"{path} has no `{lacking[0]}`: an earlier version of refusal-eval made it. Delete it and run again; "
                "it is made of the scores, without a GPU"
            )
        return result

    def order(self, names: str) -> list[str]:
        return [name if isinstance(name, str) else name["name"] for name in self.asked.get(names, ())]
