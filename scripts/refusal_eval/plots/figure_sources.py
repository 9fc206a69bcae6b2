"""What figures are drawn from, read from files when a figure first asks."""

from __future__ import annotations

import csv
import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.core.files import read_json, read_jsonl
from refusal_eval.plots.refusal_kinds_figure import LABELS_OF, NOT_TOLD
from refusal_eval.report.paper.display import Score
from refusal_eval.report.paper.frames import Card

Cell = tuple[str, str]


class Sources:
    """The files of a study that its figures need; those of one kind are given as a list of paths.

    Args:
        scores: scores/*.json.
        rows: scores/*.csv by (judge, model, split).
        cards: judge_cards/*.json.
        verdicts: verdict files by (judge, model, split).
        estimates: JSON files with a list of `estimate.Estimate` rows under `estimates`.
        tradeoff: the study's trade-off, none or one.
        agreement: judge_agreement.json, none or one.
    """

    def __init__(
        self,
        *,
        scores: Sequence[str] = (),
        rows: Mapping[tuple[str, str, str], str] | None = None,
        cards: Sequence[str] = (),
        verdicts: Mapping[tuple[str, str, str], str] | None = None,
        estimates: Sequence[str] = (),
        tradeoff: Sequence[str] = (),
        agreement: Sequence[str] = (),
    ) -> None:
        self._scores, self._rows, self._cards = scores, rows or {}, cards
        self._verdicts, self._estimates = verdicts or {}, estimates
        self._tradeoff, self._agreement = tradeoff, agreement

    @functools.cached_property
    def scores(self) -> list[Score]:
        """The scores of all cells under the judges that figures show."""
        return [read_json(path) for path in self._scores]

    @functools.cached_property
    def cards(self) -> list[Card]:
        """The cards of all judges on all gold."""
        return [read_json(path) for path in self._cards]

    @functools.cached_property
    def estimates(self) -> list[Mapping[str, Any]]:
        """The rows of estimates."""
        return [row for path in self._estimates for row in read_json(path)["estimates"]]

    @functools.cached_property
    def tradeoff(self) -> Mapping[str, Any]:
        """The study's trade-off."""
        found: Mapping[str, Any] = read_json(self._tradeoff[0])
        return found

    @functools.cached_property
    def agreement(self) -> Mapping[str, Any]:
        """The agreement of the study's judges."""
        found: Mapping[str, Any] = read_json(self._agreement[0])
        return found

    def votes(self, judge: str, models: Sequence[str], splits: Sequence[str]) -> dict[Cell, list[float]]:
        """Return c(x) of each prompt (of dialogues: scored turn) that has one, by (model, split)."""
        cells = [(model, split) for model in models for split in splits if (judge, model, split) in self._rows]
        return {(model, split): _column(self._rows[judge, model, split], "c") for model, split in cells}

    def kinds(self, judge: str, models: Sequence[str], splits: Sequence[str], reading: str) -> dict[Cell, Counter[str]]:
        """Return the number of refusing answers of each kind by (model, split); without a kind they are `NOT_TOLD`.

        As in all rates, answers to turns of dialogues that are not scored do not count; judges read them, too.
        """
        wanted = LABELS_OF[reading]
        found = {}
        for model in models:
            for split in splits:
                scored = _scored_turns(self._rows[judge, model, split])
                rows = [row for row in read_jsonl(self._verdicts[judge, model, split]) if row["label"] in wanted]
                found[model, split] = Counter(
                    row["kind"] or NOT_TOLD for row in rows if (row["prompt_id"], row["turn"]) in scored
                )
        return found


def _scored_turns(path: str) -> set[tuple[str, int]]:
    """The (prompt id, turn) of the rows of a cell's scores."""
    with Path(path).open(encoding="utf-8", newline="") as handle:
        return {(row["prompt_id"], int(row["turn"])) for row in csv.DictReader(handle)}


def _column(path: str, name: str) -> list[float]:
    """The numbers of one column of a CSV; empty fields are left out."""
    with Path(path).open(encoding="utf-8", newline="") as handle:
        reader = csv.reader(handle)
        place = next(reader).index(name)
        return [float(row[place]) for row in reader if row[place]]
