"""How many prompts a transform left as they are."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.core.files import read_jsonl
from refusal_eval.features.transforms.transform_kind import REASONS
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.flags import UNTRANSFORMED

BECAUSE = "untransformed_because"


def measure(files: Mapping[str, Sequence[str]], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the share of the prompts that each transformed model was asked with their own text, in all and by why."""
    found = []
    for (model, split), path in zip(params["cells"], files["transformed"], strict=True):
        counts = Counter(row.get(UNTRANSFORMED) for row in read_jsonl(path))
        total = counts.total()
        about: dict[str, Any] = {"model": model, "split": split, "n_prompts": total}
        found.append(Estimate(UNTRANSFORMED, (total - counts[None]) / total, **about))
        found += [
            Estimate(BECAUSE, counts[reason] / total, parameter=reason, **about) for reason in REASONS if counts[reason]
        ]
    return {"estimates": [estimate.row() for estimate in found]}


def methods_words(results: Sequence[Estimate]) -> dict[str, Any]:
    """Return what the methods section says of transforms: the models, and each cell with prompts in their own text."""
    own = [row for row in results if row.estimand == UNTRANSFORMED]
    return {"transformed": {row.model for row in own}, "untransformed": [row for row in own if row.value]}
