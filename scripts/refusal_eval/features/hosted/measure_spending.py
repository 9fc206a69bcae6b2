"""The price of answers and of verdicts, out of the tokens that providers bill."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from refusal_eval.core.files import read_jsonl
from refusal_eval.core.states import JUDGED, JUDGED_ANSWER_STATES
from refusal_eval.features.hosted.price import Price
from refusal_eval.stats.estimates.estimate import Estimate

OF_ANSWERS, OF_VERDICTS = "cost_per_1000_answers", "cost_per_1000_verdicts"


def measure(files: Mapping[str, Sequence[str]], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return what 1,000 answers with text cost of each model on each split, and 1,000 verdicts of each judge on them.

    The tokens of all answers are counted, also of those that were blocked or failed; those of reasoning are tokens of
    the answer. A response that several rows of a cell share is billed once, and counted once. A price of another day
    gives another number.
    """
    found = []
    cells = itertools.product(params["prices"], params["splits"])
    for (model, split), path in zip(cells, files["answers"], strict=True):
        rows = list(read_jsonl(path))
        billed = {row["key"]: row["usage"] for row in rows if "usage" in row}
        unknown = {row["key"] for row in rows if row["key"] is not None and "usage" not in row}
        named = {"model": model, "split": split, "samples": params["samples"]}
        with_text = sum(row["state"] in JUDGED_ANSWER_STATES for row in rows)
        found.append(_cost(OF_ANSWERS, params["prices"][model], billed, unknown, with_text, rows, named))
    judged = itertools.product(params["judge_prices"], params["models"], params["splits"])
    for (judge, model, split), path in zip(judged, files["verdicts"], strict=True):
        rows = list(read_jsonl(path))
        billed = {key: usage for row in rows for key, usage in row.get("billed", {}).items()}
        unknown = {row["key"] for row in rows if row["key"] is not None} - set(billed)
        named = {"judge": judge, "model": model, "split": split, "samples": params["samples"]}
        given = sum(row["state"] == JUDGED for row in rows)
        found.append(_cost(OF_VERDICTS, params["judge_prices"][judge], billed, unknown, given, rows, named))
    return {"estimates": [estimate.row() for estimate in found]}


def _cost(
    estimand: str,
    price_entry: Mapping[str, Any],
    billed: Mapping[str, Mapping[str, int]],
    unknown: Iterable[str],
    count: int,
    rows: Sequence[Mapping[str, Any]],
    named: Mapping[str, Any],
) -> Estimate:
    """Return what 1,000 of `count` cost.

    Args:
        billed: the tokens of each response, by its key.
        unknown: keys of responses without a bill.
    """
    price, lacking = Price.model_validate(price_entry), len(set(unknown))
    cost = sum((price.cost(usage) for usage in billed.values()), Decimal(0))
    how = f"prices of {price.date}" + (f"; {lacking} responses without a bill are not counted" if lacking else "")
    value = float(cost / count * 1000) if count else None
    prompts = len({row["prompt_id"] for row in rows})
    return Estimate(estimand, value, method=how, parameter=price.currency, n_prompts=prompts, **named)
