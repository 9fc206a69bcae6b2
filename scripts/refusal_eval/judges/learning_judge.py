"""Judges that are fitted on gold before they judge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from refusal_eval.judges.judge_base import EngineJudge

GoldRow = Mapping[str, Any]


class LearningJudge(EngineJudge):
    """A judge that is fitted on what its engine answers about gold, and overrides `reader` to read by that fit."""

    def gold_to_fit(self) -> list[str]:
        raise NotImplementedError

    def seen_in(self, response: Mapping[str, Any]) -> Any:
        """Return the part of a stored response that it learns from."""
        return response

    def fit_on(
        self,
        gold: Sequence[Sequence[GoldRow]],
        seen: Mapping[str, Any],
        model_path: str,
        others: Iterable[GoldRow] = (),
    ) -> list[dict[str, Any]]:
        """Write the fitted model, and return its verdicts on rows that it had not seen the like of, as lines of a file.

        These are its verdicts on gold: on all rows of `gold`, and on those of `others` whose prompts it learns from.

        Args:
            gold: the rows of each of `gold_to_fit`.
            seen: what `seen_in` returns for the rows that the engine has answered, by the row's id.
            others: rows of gold that it does not learn from.

        Raises:
            UserError: for gold that nothing can be learned from.
        """
        raise NotImplementedError
