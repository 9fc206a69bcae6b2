"""Judges that are fitted on gold before they judge, by the run or before they were shipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from refusal_eval.config.judge_entry import JudgeEntry, Way
from refusal_eval.judges.judge_base import Messages, Verdict

GoldRow = Mapping[str, Any]


class GoldSet(NamedTuple):
    """The rows of one gold of the study."""

    name: str
    rows: Sequence[GoldRow]
    label: str | None = None  # its name in tables
    written_to_label: bool = False
    labelled_by_model: str | None = None


class LearningJudge(JudgeEntry):
    """A judge that is fitted on gold.

    One that asks an engine overrides `reader` to read by that fit (`EngineJudge`), one that asks none `judge_fitted`.
    """

    way: ClassVar[Way] = "answers"

    def gold_to_fit(self) -> list[str]:
        raise NotImplementedError

    def seen_in(self, response: Mapping[str, Any]) -> Any:
        """Return the part of a stored response that it learns from."""
        return response

    def judge_fitted(self, asked: Sequence[tuple[Messages, str]], fitted: str | None, of_gold: bool) -> list[Verdict]:
        """Return the verdicts on (messages, answer), for a judge without an engine.

        Args:
            fitted: the file that `fit_on` wrote; None for a judge that brings its own.
            of_gold: whether these are answers of gold, of which no fit may have seen the like.
        """
        raise NotImplementedError

    def fit_on(
        self, gold: Sequence[GoldSet], seen: Mapping[str, Any], model_path: str, others: Sequence[GoldSet] = ()
    ) -> list[dict[str, Any]]:
        """Write the fitted model, and return its verdicts on rows that it had not seen the like of, as lines of a file.

        These are its verdicts on gold: on all rows of `gold`, and on those of `others` whose prompts it learns from.

        Args:
            gold: each of `gold_to_fit`.
            seen: what `seen_in` returns for the rows that the engine has answered, by the row's id; empty without one.
            others: gold that it does not learn from.

        Raises:
            UserError: for gold that nothing can be learned from.
        """
        raise NotImplementedError
