"""That the files which tables are made of say the same as the frozen results table."""

from refusal_eval.core.errors import UserError
from refusal_eval.report.paper.table_data import TableData
from refusal_eval.report.results.collected import key_of, rounded
from refusal_eval.report.results.from_scores import card_estimates, score_estimates
from refusal_eval.stats.estimates.estimate import Estimate


def check_equal(data: TableData) -> None:
    """Check that every number of a table's scores and cards stands in the results table, value and interval.

    What has no interval there may have one in the results table, from another file.

    Raises:
        UserError: if one does not; the results table or the tables would be of another time.
    """
    known = {key_of(estimate): estimate for estimate in data.results}
    scores, cards = (getattr(data, noun) if data.files.get(noun) else [] for noun in ("scores", "cards"))
    wanted = [estimate for score in scores for estimate in score_estimates(score, data.asked["tau"])]
    wanted += [estimate for card in cards for estimate in card_estimates(card)]
    for estimate in wanted:
        key = key_of(estimate)
        found = known.get(key)
        with_ends = estimate.low is not None
        if found is None or _numbers(found, with_ends) != _numbers(estimate, with_ends):
            names = " ".join(part for part in key if part)
            raise UserError(
                f"the results table has {'no value' if found is None else _told(found, with_ends)} for {names}, and "
                f"the scores have {_told(estimate, with_ends)}; make the results table anew"
            )


def _numbers(estimate: Estimate, with_ends: bool) -> list[float | None]:
    """The value, and both ends of its interval, with the digits that the results table keeps."""
    return [rounded(number) for number in (estimate.value, *((estimate.low, estimate.high) if with_ends else ()))]


def _told(estimate: Estimate, with_ends: bool) -> str:
    value, *ends = _numbers(estimate, with_ends)
    return f"{value}" + (f" {ends}" if ends else "")
