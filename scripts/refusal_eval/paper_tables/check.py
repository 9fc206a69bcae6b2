"""That the files which tables are made of say the same as the frozen results table."""

from __future__ import annotations

from collections.abc import Iterable

from refusal_eval.display import Score
from refusal_eval.errors import UserError
from refusal_eval.estimate import Estimate
from refusal_eval.frames import Card
from refusal_eval.results_table.collect import key_of, rounded
from refusal_eval.results_table.from_scores import card_estimates, score_estimates


def check_equal(results: Iterable[Estimate], scores: Iterable[Score], cards: Iterable[Card], tau: float) -> None:
    """Check that every number of the scores and cards stands in the results table, with the same value.

    Raises:
        UserError: if one does not; the results table or the tables would be of another time.
    """
    known = {key_of(estimate): rounded(estimate.value) for estimate in results}
    wanted = [estimate for score in scores for estimate in score_estimates(score, tau)]
    wanted += [estimate for card in cards for estimate in card_estimates(card)]
    for estimate in wanted:
        key, value = key_of(estimate), rounded(estimate.value)
        if key not in known or known[key] != value:
            names = " ".join(part for part in key if part)
            raise UserError(
                f"the results table has {known.get(key, 'no value')} for {names}, and the scores have {value}; make "
                "the results table anew"
            )
