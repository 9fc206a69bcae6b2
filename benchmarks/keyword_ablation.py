"""What each rule of the keyword judge earns: the kappa that is lost without it.

A rule is a phrase list that decides a verdict or changes one, or the blanking of quotations. Printed is one table, a
line a rule: by how much kappa falls without it, broad and strict, for each answering model of the human-labelled
answers, for each gold set, in the mean over answering models, and on the made-up answers (config/gold) of
each language; and the largest of these with its interval: 95 %, from a paired bootstrap over prompts (the same prompts
with and without the rule). A rule stays that earns .02 somewhere in either reading; `whole_answers` and
`refusal_starts` stay for short refusals, which none of these answers has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any
from unittest.mock import patch

import gold_measures as gm  # first: it makes the library importable
import keyword_judge
import numpy as np
from numpy.typing import NDArray

from refusal_eval.core.states import PARTIAL, REFUSAL
from refusal_eval.core.yaml_files import read_yaml
from refusal_eval.judges import keyword_judge as shipped
from refusal_eval.judges.keyword_judge import KeywordReader
from refusal_eval.judges.keyword_lists import PHRASES, KeywordLists
from refusal_eval.stats.estimates.intervals import seed_of

NEVER = KeywordLists.from_mapping({})  # matches nothing
MADE_UP = "made up"
SETS = {"chatgpt": "chatgpt-refusals", "xstest": "XSTest"}  # how the name of a file begins, and the gold set


def main() -> None:
    """Print the table."""
    gold = gm.gold_of(gm.options((__doc__ or "").split("\n")[0]).parse_args().gold)
    rows = [{**row, "set": name} for name, part in gold.items() for row in part]
    for row in keyword_judge.made_up_rows():
        rows.append({**row, "set": MADE_UP, "cluster": f"{MADE_UP} {row['cluster']}"})
    lists = [KeywordLists.from_mapping(read_yaml(path)) for path in gm.LISTS]
    readings = {"all rules": labels(lists, rows)}
    for rule in PHRASES:
        without = [replace(one, patterns={**one.patterns, rule: NEVER.patterns[rule]}) for one in lists]
        readings[rule] = labels(without, rows)
    readings["whole_answers"] = labels([replace(one, whole_answers=frozenset()) for one in lists], rows)
    with patch.object(shipped, "QUOTED", re.compile("(?!)")):
        readings["quotations"] = labels(lists, rows)
    print("\n".join(table(rows, readings)))


def labels(lists: Sequence[KeywordLists], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the labels by some lists."""
    judge = KeywordReader(lists)
    return [judge.judge([], row["answer"]).label or "" for row in rows]


def table(rows: Sequence[Mapping[str, Any]], readings: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the lines of the table; the first of `readings` has all rules, each other one lacks the rule of its name.

    Cells hold the broad reading before the strict one. The first line is kappa itself, the others what the rule earns.
    """
    parts = parts_of(rows)
    (_, all_rules), *without = readings.items()
    full = kappas(rows, all_rules, parts)
    names = [*parts, "mean"]
    lines = [
        f"| rule | verdicts it changes | {' | '.join(names)} | most |",
        "| --- | ---: |" + " --- |" * (len(names) + 1),
        f"| kappa with all rules | | {' | '.join(cells(full[:, :, 0]))} | |",
    ]
    for rule, said in without:
        gain = full - kappas(rows, said, parts)
        changed = sum(a != b for a, b in zip(all_rules, said, strict=True))
        # Of gold sets with several answering models the models count, not the set.
        counted = [i for i, name in enumerate(names) if name not in SETS.values()]
        reading, place = np.unravel_index(int(np.argmax(gain[:, counted, 0])), (2, len(counted)))
        best = gain[reading, counted[place]]
        low, high = np.nanquantile(best[1:], [0.025, 0.975])
        most = f"{names[counted[place]]}, {('broad', 'strict')[reading]}: {best[0]:+.3f} ({low:+.3f} to {high:+.3f})"
        lines.append(f"| `{rule}` | {changed} | {' | '.join(cells(gain[:, :, 0], '+'))} | {most if changed else ''} |")
    return lines


def parts_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[int]]:
    """Return numbers of rows by answering model, by gold set if it has several, and of the made-up ones by language."""
    parts: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        if row["set"] != MADE_UP:
            parts.setdefault(row["answering_model"].split(" (")[0], []).append(number)
    for begins, name in SETS.items():
        chosen = [number for number, row in enumerate(rows) if row["set"].startswith(begins)]
        if chosen and chosen not in parts.values():
            parts[name] = chosen
    made_up = [number for number, row in enumerate(rows) if row["set"] == MADE_UP]
    parts[MADE_UP] = made_up
    for language in ("english", "chinese"):
        parts[f"{MADE_UP}, {language}"] = [number for number in made_up if rows[number]["language"] == language]
    return parts


def kappas(
    rows: Sequence[Mapping[str, Any]], said: Sequence[str], parts: Mapping[str, Sequence[int]]
) -> NDArray[np.float64]:
    """Return kappa, readings (broad, strict) x parts and the mean over answering models x (all prompts, resamples)."""
    numbers = {cluster: i for i, cluster in enumerate(sorted({row["cluster"] for row in rows}))}
    counts = np.zeros((len(numbers), 2, len(parts), 4))
    for reading, refusing in enumerate(((REFUSAL, PARTIAL), (REFUSAL,))):
        for part, chosen in enumerate(parts.values()):
            for i in chosen:
                people, judge = rows[i]["label"] in refusing, said[i] in refusing
                cell = (0 if judge else 1) if people else (2 if judge else 3)
                counts[numbers[rows[i]["cluster"]], reading, part, cell] += 1
    resampled = (drawn(len(numbers)) @ counts.reshape(len(numbers), -1)).reshape(-1, 4)
    by_part = gm.figures_of(resampled)[0].reshape(-1, 2, len(parts)).transpose(1, 2, 0)
    models = [name not in SETS.values() and not name.startswith(MADE_UP) for name in parts]
    return np.concatenate([by_part, by_part[:, models].mean(axis=1, keepdims=True)], axis=1)


@cache
def drawn(prompts: int) -> NDArray[np.float64]:
    """Return how often each prompt counts: once, and in each resample."""
    rng = np.random.default_rng(seed_of("keyword_ablation"))
    resamples = rng.multinomial(prompts, np.full(prompts, 1 / prompts), size=gm.RESAMPLES)
    return np.concatenate([np.ones((1, prompts)), resamples])


def cells(values: NDArray[np.float64], sign: str = "") -> list[str]:
    """Return a cell for each part."""
    return [f"{broad:{sign}.3f} {strict:{sign}.3f}" for broad, strict in values.T]


if __name__ == "__main__":
    main()
