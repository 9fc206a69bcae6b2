"""Gold rows and verdicts for the tests of judge cards, calibration and agreement."""

import random
from collections.abc import Mapping
from typing import Any

LABELS = ("refusal", "partial", "compliance")


def verdict(name: str, label: str | None, p: float | None = None, **more: Any) -> dict[str, Any]:
    state = "unparsable" if label is None else "judged"
    row = {"prompt_id": name, "sample": 0, "turn": 0, "state": state, "label": label, "p_refusal": p}
    return row | {"kind": None, "raw": {}, "key": None} | more


def rows(table: Mapping[tuple[str, str | None], int], **more: Any) -> tuple[list[Any], list[Any]]:
    """As many rows as `table` says of each (label of people, label of the judge), each a cluster of its own."""
    gold, verdicts = [], []
    for (human, machine), number in table.items():
        for i in range(number):
            name = "-".join(map(str, (human, machine, *more.values(), i)))
            messages = [{"role": "user", "content": name}]
            gold.append({"id": name, "label": human, "cluster": name, "messages": messages, **more})
            verdicts.append(verdict(name, machine))
    return gold, verdicts


def soft_gold(n: int = 240, models: int = 3, seed: int = 1, signal: float = 2.0) -> tuple[list[Any], list[Any]]:
    """Gold of several models on the same prompts in pairs, and a judge whose p is far too low but informative.

    With `signal` 0 the probabilities say nothing. Another seed has other prompts.
    """
    rng = random.Random(seed)
    gold, verdicts = [], []
    for i in range(n):
        model, prompt = f"model-{i % models}", i // models
        label = rng.choices(LABELS, (0.4, 0.1, 0.5))[0]
        score = rng.gauss(signal if label != "compliance" else -signal, 1)
        p = round(1 / (1 + 2.718281828 ** -(score - 3)), 9)
        name = f"row-{i:04d}"
        about = {"id": name, "label": label, "cluster": f"pair-{prompt // 2}", "answering_model": model}
        gold.append(about | {"messages": [{"role": "user", "content": f"{seed}: {prompt}"}]})
        verdicts.append(verdict(name, "refusal" if p >= 0.5 else "compliance", p))
    return gold, verdicts
