"""What it changes how the same turns are asked: paired differences of refusal rates between splits, for one model.

Turns pair by the row of the source and their number in its script, so a question within a long conversation meets the
same question by itself.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from refusal_eval.core.files import read_jsonl
from refusal_eval.stats.comparisons.paired import paired_differences, panel_of
from refusal_eval.stats.comparisons.study_comparisons import paired_flags
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.units import PLACE, JudgedCell, Units, read_units
from refusal_eval.study.dialogues import asked_turns

DIFFERENCE, FIRST, SECOND = "way_difference", "way_difference_first", "way_difference_second"
ScriptPlace = tuple[str, int]  # row of the source, and number of a turn in its script


def measure(files: Mapping[str, Sequence[str]], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of the analysis' file (`workflow.analysis.Analysis.measure`)."""
    cells = [(judge, model, split) for judge, model, split in params["cells"]]
    units = {cell: read_units(path, keep_samples=False) for cell, path in zip(cells, files["scores"], strict=True)}
    places = {
        split: script_places(read_jsonl(path)) for split, path in zip(params["splits"], files["prompts"], strict=True)
    }
    found = [one for names in params["ways"] for one in _of_ways(names, units, places, params)]
    return {"estimates": [estimate.row() for estimate in found]}


def script_places(prompts: Iterable[Mapping[str, Any]]) -> dict[tuple[str, int], ScriptPlace]:
    """Return where the turns of prompts lie in the scripts that they are of, by prompt id and turn.

    A prompt that was made of one turn of a script counts with its last turn alone: what precedes it there, such as the
    scene, is asked for its sake.
    """
    found: dict[tuple[str, int], ScriptPlace] = {}
    for prompt in prompts:
        source, asked = prompt["source"], asked_turns(prompt)
        if "turn" in source:
            found[prompt["id"], asked[-1]] = (str(source["row"]), source["turn"])
        else:
            found |= {(prompt["id"], turn): (str(source["row"]), turn) for turn in asked}
    return found


def by_place(units: Units, places: Mapping[tuple[str, int], ScriptPlace]) -> pd.DataFrame:
    """Return the frame of a cell (`Units.frame`) by the places of its turns, without turns that have none."""
    keys = list(zip(units["prompt_id"].tolist(), units["turn"].tolist(), strict=True))
    there = [key in places for key in keys]
    index = pd.MultiIndex.from_tuples([places[key] for key in keys if key in places], names=PLACE)
    return units.frame[there].set_axis(index, axis=0).sort_index()


def _of_ways(
    names: Sequence[str],
    units: Mapping[JudgedCell, Units],
    places: Mapping[str, Mapping[tuple[str, int], ScriptPlace]],
    params: Mapping[str, Any],
) -> Iterator[Estimate]:
    """Yield the differences of each pair of these splits, and both rates, for each judge and model."""
    pairs = list(itertools.combinations(range(len(names)), 2))
    reading = params["readings"][names[0]]
    for judge, model in dict.fromkeys((judge, model) for judge, model, split in units if split in names):
        own = [units[judge, model, split] for split in names]
        frames = [by_place(one, places[split]) for one, split in zip(own, names, strict=True)]
        panel = panel_of({names[0]: frames}, {names[0]: reading})
        scope = [f"ways of asking, {judge}, {model}", *names]
        for (one, other), result in zip(pairs, paired_differences(panel, pairs, scope, params["level"]), strict=True):
            flags = paired_flags([own[one].flags], [own[other].flags], result)
            about = {
                **{"judge": judge, "model": model, "split": names[one], "parameter": f"minus {names[other]}"},
                **{"reading": reading, "samples": params["samples"]},
                **{"n_prompts": result.n, "n_clusters": result.n_clusters},
            }
            level = None if result.low is None else params["level"]
            ends = (result.low, result.high, level, result.method)
            yield Estimate(DIFFERENCE, result.difference, *ends, **about, flags=tuple(flags["flags"]))
            yield Estimate(FIRST, result.rate_first, **about, flags=tuple(flags["flags_first"]))
            yield Estimate(SECOND, result.rate_second, **about, flags=tuple(flags["flags_second"]))
