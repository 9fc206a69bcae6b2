"""Gold sets compared with each other: the answers that two of them label."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from refusal_eval.core.files import canonical_json
from refusal_eval.core.states import JUDGED
from refusal_eval.features.judge_cards.judge_card import judge_card
from refusal_eval.stats.agreement.compared import is_convention
from refusal_eval.stats.estimates.estimands import CellRow


def gold_cards(golds: Mapping[str, Iterable[CellRow]], level: float) -> Iterator[dict[str, Any]]:
    """Yield, for every two gold sets with common answers, the card of the second's labels as a judge of the first's.

    An answer is common if messages and answer are the same, whichever model they are said to be of; those that the
    second labels in two ways are left out. A convention decides an answer's label if it does in either gold set. The
    card is `judge_card.judge_card`, with `denied`: rows by (label of the first, label of the second) where either gold
    set says that the answer denies the prompt's premise.
    """
    known = {name: list(rows) for name, rows in golds.items()}
    for first, second in itertools.combinations(known, 2):
        others: dict[str, list[CellRow]] = {}
        for row in known[second]:
            others.setdefault(_text(row), []).append(row)
        common, verdicts, denied = [], [], list[tuple[str, str]]()
        for row in known[first]:
            same = others.get(_text(row), [])
            if len({other["label"] for other in same}) != 1:
                continue
            common.append({**row, "convention": any(map(is_convention, (row, *same)))})
            verdicts.append({"prompt_id": row["id"], "state": JUDGED, "label": same[0]["label"]})
            if any(one.get("denied_premise") for one in (row, *same)):
                denied.append((row["label"], same[0]["label"]))
        if common:
            card = judge_card(common, verdicts, judge=second, gold=first, level=level)
            yield card | {"denied": {pair: denied.count(pair) for pair in sorted(set(denied))}}


def _text(row: CellRow) -> str:
    return canonical_json([row["messages"], row["answer"]])
