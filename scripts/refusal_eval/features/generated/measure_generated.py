"""What comes of prompts that are made step by step: the rows of each step, and refusals against the seeds'."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from refusal_eval.core.files import read_jsonl
from refusal_eval.stats.comparisons.paired import paired_differences, panel_of
from refusal_eval.stats.comparisons.study_comparisons import paired_flags
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.units import PLACE, JudgedCell, Units, read_units
from refusal_eval.study.row_sources import row_source

ROWS_IN, ROWS_LOST, ROWS_OUT = "step_rows_in", "step_rows_lost", "step_rows_out"
DIFFERENCE, OF_PROMPTS, OF_SEEDS = "generated_difference", "generated_rate", "generated_seeds_rate"
FILTERED, FILTERED_WORDS = "filtered", "left out by the split"
PromptLine = Mapping[str, Any]


def measure(files: Mapping[str, Sequence[str]], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of the analysis' file (`workflow.analysis.Analysis.measure`), with the words for states."""
    cells = [(judge, model, split) for judge, model, split in params["cells"]]
    units = {cell: read_units(path, keep_samples=False) for cell, path in zip(cells, files["scores"], strict=True)}
    paths, answers = list(files["prompts"]), list(files["read"])
    found, words = list[Estimate](), dict[str, str]()
    # Chains may share their seeds and their first steps, and the seeds of one may be a step of another.
    counted, made = set[str](), {step["split"] for chain in params["chains"] for step in chain["steps"]}
    for chain in params["chains"]:
        here, paths = paths[: len(chain["steps"]) + 1], paths[len(chain["steps"]) + 1 :]
        prompts = [list(read_jsonl(path)) for path in here]
        if chain["seeds"] not in counted | made:
            found += _outcome(chain["seeds"], None, prompts[0])
            counted.add(chain["seeds"])
        for place, step in enumerate(chain["steps"], 1):
            read, answers = answers[: step["files"]], answers[step["files"] :]
            if step["split"] not in counted:
                found += _step(step, here[place - 1], read, prompts[place - 1], prompts[place], words)
            counted.add(step["split"])
        found += list(_against_seeds(chain, seeds_of(chain["steps"], prompts), units, params))
    chains = [
        {"seeds": chain["seeds"], "steps": [step["split"] for step in chain["steps"]]} for chain in params["chains"]
    ]
    return {"estimates": [estimate.row() for estimate in found], "words": words, "chains": chains}


def seeds_of(steps: Sequence[Mapping[str, Any]], prompts: Sequence[Sequence[PromptLine]]) -> dict[str, str]:
    """Return the id of the seed that each prompt at the end of a chain was made from, by its own id.

    Args:
        steps: of which `source` says whether their prompts keep the ids of those that they are made of.
        prompts: of the seeds, and of each step.
    """
    of = {prompt["id"]: prompt["id"] for prompt in prompts[0]}
    for step, own in zip(steps, prompts[1:], strict=True):
        keeps_ids = row_source(step["source"]).keeps_ids
        of = {row["id"]: of[row["id"] if keeps_ids else row["source"]["parent"]] for row in own}
    return of


def _step(
    step: Mapping[str, Any],
    path: str,
    read: Sequence[str],
    before: Sequence[PromptLine],
    after: Sequence[PromptLine],
    words: dict[str, str],
) -> Iterator[Estimate]:
    """Yield the rows of a step: those it began with, those it lost by state, and those that are left."""
    source = row_source(step["source"])
    fates = source.fates(path, *read) if source.made_in is None else source.fates(*read)
    asked = len(before) if fates is None else len(fates)
    about: dict[str, Any] = {"model": step["model"], "split": step["split"], "n_prompts": asked}
    yield Estimate(ROWS_IN, asked, **about)
    lost = Counter(fate.state for fate in fates or () if not fate.passed)
    words |= {fate.state: fate.words for fate in fates or () if not fate.passed}
    passed = len(fates) - lost.total() if fates is not None else len(after)
    if passed > len(after):
        lost[FILTERED] = passed - len(after)
        words[FILTERED] = FILTERED_WORDS
    yield from (Estimate(ROWS_LOST, count, parameter=state, **about) for state, count in sorted(lost.items()))
    yield from _outcome(step["split"], step["model"], after)


def _outcome(split: str, model: str | None, prompts: Sequence[PromptLine]) -> Iterator[Estimate]:
    yield Estimate(ROWS_OUT, len(prompts), model=model, split=split, n_prompts=len(prompts))
    counts = Counter(str(prompt["category"]) for prompt in prompts if prompt["category"] is not None)
    for category, count in sorted(counts.items()):
        yield Estimate(ROWS_OUT, count, model=model, split=split, category=category, n_prompts=count)


def _against_seeds(
    chain: Mapping[str, Any], seeds: Mapping[str, str], units: Mapping[JudgedCell, Units], params: Mapping[str, Any]
) -> Iterator[Estimate]:
    """Yield the difference of refusal rates between prompts and their seeds for each judge and model, of all and by
    category."""
    split, origin, reading = chain["split"], chain["seeds"], chain["reading"]
    for judge, model in dict.fromkeys((judge, model) for judge, model, of in units if of == split):
        own, other = (units[judge, model, of] for of in (split, origin))
        frames = [own.frame, beside(own.frame, other.frame, seeds)]
        about: dict[str, Any] = {"judge": judge, "model": model, "split": split, "samples": params["samples"]}
        about |= {"parameter": f"minus {origin}", "reading": reading}
        panel, scope = panel_of({split: frames}, {split: reading}), [f"seeds, {judge}, {model}", split, origin]
        (result,) = paired_differences(panel, [(0, 1)], scope, params["level"])
        flags = paired_flags([own.flags], [other.flags], result)
        here = about | {"n_prompts": result.n, "n_clusters": result.n_clusters}
        level = None if result.low is None else params["level"]
        ends = (result.low, result.high, level, result.method)
        yield Estimate(DIFFERENCE, result.difference, *ends, **here, flags=tuple(flags["flags"]))
        yield Estimate(OF_PROMPTS, result.rate_first, **here, flags=tuple(flags["flags_first"]))
        yield Estimate(OF_SEEDS, result.rate_second, **here, flags=tuple(flags["flags_second"]))
        rates = pd.DataFrame({"own": frames[0][f"rate_{reading}"], "seed": frames[1][f"rate_{reading}"]})
        rates["category"] = frames[0]["category"]
        known = rates[rates["own"].notna() & rates["seed"].notna() & (rates["category"] != "")]
        for category, rows in known.groupby("category"):
            here = about | {"category": str(category), "n_prompts": len(rows)}
            one, two = float(rows["own"].mean()), float(rows["seed"].mean())
            yield Estimate(DIFFERENCE, one - two, **here)
            yield Estimate(OF_PROMPTS, one, **here)
            yield Estimate(OF_SEEDS, two, **here)


def beside(own: pd.DataFrame, seeds: pd.DataFrame, seed_of: Mapping[str, str]) -> pd.DataFrame:
    """Return the rows of the seeds of prompts, in the places of these, with their clusters.

    A seed of several prompts is there several times; one that is not in the frame is in no row.
    """
    of = [(seed_of[prompt], turn) for prompt, turn in own.index]
    there = [place in seeds.index for place in of]
    found = seeds.loc[[place for place, known in zip(of, there, strict=True) if known]]
    index = pd.MultiIndex.from_tuples(own.index[there].tolist(), names=PLACE)
    return found.set_axis(index, axis=0).assign(cluster=own["cluster"][there].to_numpy())
