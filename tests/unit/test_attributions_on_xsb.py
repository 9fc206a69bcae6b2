"""The row of random words on XSB's own prompts, where somebody has them: what attributions have to beat there.

REFUSAL_EVAL_XSB names the file XSB.csv (catalogue: config/catalogue/datasets/xsb.yaml), whose rows have `prompt`,
`label` and `focus`.
"""

import csv
import os
import re
from pathlib import Path
from typing import Any

import pytest

from refusal_eval.data.text_units import UNITS
from refusal_eval.features.attributions.attribution_estimates import attribution_estimates, ranked
from refusal_eval.features.attributions.attribution_values import row_of

FILE = os.environ.get("REFUSAL_EVAL_XSB", "")
pytestmark = [
    pytest.mark.feature("attributions"),
    pytest.mark.skipif(not FILE, reason="REFUSAL_EVAL_XSB names no file: XSB cannot be in the repository"),
]
SPLITS = ("safe", "unsafe")
# In all 492 prompts, and by split: a random word is one of the focus, or a part of it.
RANDOM = {
    "exact": {None: 0.145, "safe": 0.147, "unsafe": 0.142},
    "substring": {None: 0.188, "safe": 0.190, "unsafe": 0.184},
}


@pytest.fixture(scope="module")
def rows() -> list[dict[str, str]]:
    with Path(FILE).open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if row["focus"].strip()]


def found(rows: list[dict[str, str]]) -> dict[str, float]:
    """Return what a random word finds first, by rule, as a table says it."""
    prompts: dict[str, dict[str, Any]] = {}
    for number, row in enumerate(rows):
        source = {"kept": {"focus": row["focus"]}}
        about = {"id": str(number), "cluster": str(number), "category": None, "source": source}
        prompts[str(number)] = about | {"messages": [{"role": "user", "content": row["prompt"]}]}
    each = []
    for prompt in prompts.values():
        spans = UNITS["word"](prompt["messages"][0]["content"])
        each.append(row_of(prompt, 0.0, spans, [0.0] * len(spans), "focus"))
    every = attribution_estimates(ranked(each, prompts), "xsb", 0.95, {})
    named = {row.parameter: row.value for row in every if row.estimand == "attribution_top1"}
    return {rule: named[f"xsb, {rule}, random word"] for rule in RANDOM}


def by_hand(rows: list[dict[str, str]]) -> dict[str, float]:
    """Return the mean of focus words / words, with words by a pattern of its own."""
    pattern, total = re.compile(r"\w+(?:['\u2019-]\w+)*"), dict.fromkeys(RANDOM, 0.0)
    for row in rows:
        words, focus = pattern.findall(row["prompt"].lower()), row["focus"].lower()
        total["exact"] += sum(word in pattern.findall(focus) for word in words) / len(words)
        total["substring"] += sum(word in focus for word in words) / len(words)
    return {rule: one / len(rows) for rule, one in total.items()}


@pytest.mark.parametrize("split", [None, *SPLITS])
def test_a_random_word_is_one_of_the_focus_as_often_as_the_page_says(
    rows: list[dict[str, str]], split: str | None
) -> None:
    own = [row for row in rows if split in (None, row["label"])]
    assert len(own) == {None: 492, "safe": 290, "unsafe": 202}[split]
    said, counted = found(own), by_hand(own)
    for rule, shares in RANDOM.items():
        assert said[rule] == pytest.approx(shares[split], abs=5e-4), rule
        assert said[rule] == pytest.approx(counted[rule], abs=2e-3), "words of the pattern differ in some hyphens"


def test_the_row_is_the_mean_of_focus_words_by_words_to_all_digits(rows: list[dict[str, str]]) -> None:
    shares: dict[str, list[float]] = {rule: [] for rule in RANDOM}
    for row in rows:
        text, focus = row["prompt"], row["focus"].casefold()
        words = [text[begin:end].casefold() for begin, end in UNITS["word"](text)]
        wanted = {focus[begin:end] for begin, end in UNITS["word"](focus)}
        shares["exact"].append(sum(word in wanted for word in words) / len(words))
        shares["substring"].append(sum(word in focus for word in words) / len(words))
    for rule, said in found(rows).items():
        assert said == pytest.approx(sum(shares[rule]) / len(rows), abs=1e-12)
