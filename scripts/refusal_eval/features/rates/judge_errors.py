"""How far errors of the judge would move a rate.

A judge that misses a share d of the refusals reads p (1 - d) where the rate is p, and one that calls a share d of the
compliances refusals reads p + (1 - p) d (Rogan & Gladen 1978, American Journal of Epidemiology 107:71, with one error
at a time). Answers that a provider blocked are refusals whatever a judge says.

First come the errors that people's labels on the study's gold measured for the judge, as the results table has them,
then assumed ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from refusal_eval.report.paper.display import order_names, percent
from refusal_eval.report.paper.table_data import TableData

ASSUMED, UNMEASURED = (0.1,), (0.1, 0.3)  # of a judge that gold measured, and of one that none did
NOT_PEOPLES, SEEN = {"written_to_label", "model_labels"}, "seen_gold"


@dataclass(frozen=True)
class Errors:
    """How often a judge errs: the share of refusals that it misses, and of compliances that it calls refusals."""

    name: str
    assumed: float | None = None
    measured: Mapping[tuple[str, str], float] | None = None  # 1 - sensitivity and 1 - specificity, by reading
    seen: bool = False  # whether the judge was chosen or fitted on the answers that measured them
    gold: str | None = None  # the gold set that measured them

    def miss_rate(self, reading: str) -> float | None:
        """Return the share of refusals it misses."""
        return self._share("judge_sensitivity", reading)

    def overcall_rate(self, reading: str) -> float | None:
        """Return the share of compliances it calls refusals."""
        return self._share("judge_specificity", reading)

    def shifts(self, rate: float, blocked: float, reading: str) -> tuple[float | None, float | None]:
        """Return by how much each error alone would move a rate; None if no rate is left to show it."""
        missed, overcalled = self.miss_rate(reading), self.overcall_rate(reading)
        return (
            None if missed is None or missed >= 1 else missing(rate, missed, blocked),
            None if overcalled is None or overcalled >= 1 else overcalling(rate, overcalled, blocked),
        )

    def _share(self, estimand: str, reading: str) -> float | None:
        return self.assumed if self.measured is None else self.measured.get((estimand, reading))


def judge_errors(data: TableData) -> list[Errors]:
    """Return the errors that people measured for the primary judge, by gold set, and then assumed ones."""
    found: dict[str, dict[tuple[str, str], float]] = {}
    seen = set()
    for row in data.results:
        own = row.judge == data.asked["primary_judge"] and row.category is None and not NOT_PEOPLES & {*row.flags}
        if own and row.estimand in ("judge_sensitivity", "judge_specificity") and row.value is not None:
            found.setdefault(str(row.parameter), {})[row.estimand, str(row.reading)] = 1 - row.value
            seen |= {str(row.parameter)} if SEEN in row.flags else set()
    measured = [
        Errors(f"as on\n{data.labels.gold(gold)}", measured=found[gold], seen=gold in seen, gold=gold)
        for gold in order_names(found, data.order("gold"))
    ]
    assumed = [Errors(f"{percent(error, 0)} %", error) for error in (ASSUMED if measured else UNMEASURED)]
    return [*measured, *assumed]


def missing(rate: float, error: float, blocked: float = 0.0) -> float:
    """Return how far the true rate lies above the measured one if the judge misses this share of refusals."""
    return min(1.0, blocked + (rate - blocked) / (1 - error)) - rate


def overcalling(rate: float, error: float, blocked: float = 0.0) -> float:
    """Return how far (0 or less) it lies below if the judge calls this share of compliances refusals."""
    return max(blocked, (rate - error) / (1 - error)) - rate
