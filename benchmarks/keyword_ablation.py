"""What each rule of the keyword judge earns on gold of each source: the kappa (broad) that is lost without it.

A rule is a phrase list that decides a verdict or changes one, or a step of the reading: the normal form of text,
quotations, plays, headings, the length and the bridges that make a lecture part of an answer. A source is a data set
of labelled answers (of latent jailbreak one in each language). Printed is one table, a line a rule: what it earns on
each source, in the mean over sources (95 %, from a paired bootstrap over the prompts of each source), and the least
such mean with one source left out. Sources with another convention of partial refusal stand apart, out of the mean.
Behind them is what it earns on the made-up answers (config/gold), and on how many attacks of the tests it decides.
"""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import gold_measures as gm  # first: it makes the library importable
import keyword_judge
import numpy as np
from measuring import ROOT
from numpy.typing import NDArray

from refusal_eval.core.states import COMPLIANCE
from refusal_eval.core.yaml_files import read_yaml
from refusal_eval.judges import keyword_judge as shipped
from refusal_eval.judges.keyword_judge import KeywordReader
from refusal_eval.judges.keyword_lists import PHRASES, KeywordLists
from refusal_eval.judges.normal_text import NormalText
from refusal_eval.stats.estimates.intervals import seed_of

ATTACKS = runpy.run_path(str(ROOT / "tests" / "unit" / "keyword_attacks.py"))["ATTACKS"]
NEVER = KeywordLists.from_mapping({})  # matches nothing
NO_MATCH = re.compile("(?!)")
ENDLESS = 10**9  # characters
# Steps of the reading: what takes their place.
STEPS: Mapping[str, Mapping[str, Any]] = {
    "normal form": {"normal_text": lambda answer: NormalText(answer)},
    "quotations": {"QUOTED": NO_MATCH},
    "plays": {"SPEECH": NO_MATCH},
    "headings": {"HEADING": NO_MATCH},
}
WINDOWS = {"lecture in a long answer": {"lectured": ENDLESS}}


def main() -> None:
    """Print the table."""
    gold = gm.gold_of(gm.options((__doc__ or "").split("\n")[0]).parse_args().gold)
    rows = [row for part in gm.by_source(gold).values() for row in part]
    rows += [{**row, "source": gm.MADE_UP} for row in keyword_judge.made_up_rows()]
    rows += [{"answer": attack.answer, "label": attack.want, "source": "attacks"} for attack in ATTACKS]
    lists = [KeywordLists.from_mapping(read_yaml(path)) for path in gm.LISTS]
    full = labels(lists, rows)
    without = {rule: labels(changed, rows) for rule, changed in without_each(lists)}
    print("\n".join(table(rows, full, without)))


def without_each(lists: Sequence[KeywordLists]) -> Iterator[tuple[str, Sequence[KeywordLists]]]:
    """Yield the name of each rule with the lists without it; what is no list is taken out while they are out."""
    for rule in PHRASES:
        yield rule, [replace(one, patterns={**one.patterns, rule: NEVER.patterns[rule]}) for one in lists]
    yield "whole_answers", [replace(one, whole_answers=frozenset()) for one in lists]
    for rule, windows in WINDOWS.items():
        yield rule, [replace(one, windows={**one.windows, **windows}) for one in lists]
    for rule, others in STEPS.items():
        with replaced(others):
            yield rule, lists


@contextmanager
def replaced(others: Mapping[str, Any]) -> Iterator[None]:
    """Put others in place of parts of the keyword judge."""
    with patch.multiple(shipped, **others):
        yield


def labels(lists: Sequence[KeywordLists], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the labels by some lists."""
    judge = KeywordReader(lists)
    return [judge.judge([], row["answer"]).label or "" for row in rows]


def table(rows: Sequence[Mapping[str, Any]], full: Sequence[str], without: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the lines of the table.

    Args:
        rows: answers with their `source`.
        full: their labels by all rules.
        without: their labels without each rule.
    """
    sources = [name for name in dict.fromkeys(row["source"] for row in rows) if name != "attacks"]
    counted = [i for i, name in enumerate(sources) if name not in (*gm.APART, gm.MADE_UP)]
    chosen = {name: [i for i, row in enumerate(rows) if row["source"] == name] for name in (*sources, "attacks")}
    best = np.array([kappas(rows, full, chosen[name], name) for name in sources])
    right = sum(full[i] == rows[i]["label"] for i in chosen["attacks"])
    head = [*sources, "mean over sources", "least mean, one source out", "attacks"]
    lines = ["| rule | " + " | ".join(head) + " |", "| --- |" + " --- |" * len(head)]
    shown = [f"{kappa:.3f}" for kappa in best[:, 0]]
    lines.append(f"| kappa with all | {' | '.join(shown)} | {best[counted, 0].mean():.3f} | | {right} right |")
    for rule, said in without.items():
        gain = best - np.array([kappas(rows, said, chosen[name], name) for name in sources])
        mean = gain[counted].mean(axis=0)
        low, high = np.nanquantile(mean[1:], [0.025, 0.975])
        left_out = min(np.delete(gain[counted, 0], i).mean() for i in range(len(counted))) if len(counted) > 1 else 0
        lost = right - sum(said[i] == rows[i]["label"] for i in chosen["attacks"])
        cells = [f"{value:+.3f}" for value in gain[:, 0]]
        cells += [f"{mean[0]:+.3f} ({low:+.3f} to {high:+.3f})", f"{left_out:+.3f}", f"{lost:+d}"]
        lines.append(f"| {rule if ' ' in rule else f'`{rule}`'} | {' | '.join(cells)} |")
    return lines


def kappas(
    rows: Sequence[Mapping[str, Any]], said: Sequence[str], chosen: Sequence[int], name: str
) -> NDArray[np.float64]:
    """Return kappa (broad) of some rows, from all their prompts and from each resample of them."""
    prompts = {cluster: i for i, cluster in enumerate(dict.fromkeys(rows[i]["cluster"] for i in chosen))}
    counts = np.zeros((len(prompts), 4))
    for i in chosen:
        people, judge = rows[i]["label"] != COMPLIANCE, said[i] != COMPLIANCE
        counts[prompts[rows[i]["cluster"]], (0 if judge else 1) if people else (2 if judge else 3)] += 1
    rng = np.random.default_rng(seed_of("keyword_ablation", name))
    drawn = rng.multinomial(len(prompts), np.full(len(prompts), 1 / len(prompts)), size=gm.RESAMPLES)
    found: NDArray[np.float64] = gm.figures_of(np.vstack([counts.sum(axis=0, keepdims=True), drawn @ counts]))[0]
    return found


if __name__ == "__main__":
    main()
