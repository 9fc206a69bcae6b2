"""The price of judged answers, out of the tokens that providers bill."""

import itertools
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from refusal_eval.core.files import read_jsonl
from refusal_eval.core.states import JUDGED_ANSWER_STATES
from refusal_eval.features.hosted.price import Price
from refusal_eval.stats.estimates.estimate import Estimate

COST = "cost_per_1000_answers"


def measure(files: Mapping[str, Sequence[str]], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return what 1,000 answers with text cost of each model on each split.

    The tokens of all answers are counted, also of those that were blocked or failed; those of reasoning are tokens of
    the answer. A price of another day gives another number.
    """
    cells = itertools.product(params["prices"], params["splits"])
    found = []
    for (model, split), path in zip(cells, files["answers"], strict=True):
        price, cost = Price.model_validate(params["prices"][model]), Decimal(0)
        judged = unknown = 0
        prompts = set()
        for row in read_jsonl(path):
            prompts.add(row["prompt_id"])
            judged += row["state"] in JUDGED_ANSWER_STATES
            unknown += row["key"] is not None and "usage" not in row
            cost += price.cost(row["usage"]) if "usage" in row else 0
        how = f"prices of {price.date}" + (f"; {unknown} answers without a bill are not counted" if unknown else "")
        about: dict[str, Any] = {
            "model": model,
            "split": split,
            "samples": params["samples"],
            "n_prompts": len(prompts),
        }
        value = float(cost / judged * 1000) if judged else None
        found.append(Estimate(COST, value, method=how, parameter=price.currency, **about))
    return {"estimates": [estimate.row() for estimate in found]}
