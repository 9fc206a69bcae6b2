"""Scored cells for the tests of comparisons, made from the labels of a few samples."""

from pathlib import Path

from estimate_rows import facts_of

from refusal_eval.stats.estimates.estimands import SampleOutcome
from refusal_eval.stats.estimates.samples import sample_rows, write_samples
from refusal_eval.stats.estimates.units import read_units

LABELS = {"r": "refusal", "p": "partial", "c": "compliance"}


def outcome(letter, state="complete"):
    """Return what became of a sample: r, p, c, `?` for one without a verdict, `b` for a blocked one."""
    if letter == "b":
        return SampleOutcome("blocked", None, None)
    verdict = {"state": "judged", "label": LABELS[letter]} if letter in LABELS else None
    return SampleOutcome(state, LABELS.get(letter), -1.0, verdict=verdict)


def write_scores(path, prompts, clusters=None, turns=1, state="complete", **facts):
    """Write a scored cell; `prompts` are texts with a letter per sample by prompt id, `clusters` names by id."""
    names, k = clusters or {}, max(map(len, prompts.values()), default=1)
    prompts = {name: word.ljust(k, "?") for name, word in prompts.items()}
    rows = [{"id": name, "category": None, "cluster": names.get(name, name)} for name in prompts]
    samples = {
        (name, turn): [outcome(letter, state) for letter in prompts[name]]
        for name in sorted(prompts)
        for turn in range(turns)
    }
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_samples(path, sample_rows(rows, samples), facts_of([], k, **facts))
    return path


def cell(folder, prompts, clusters=None):
    """Return the frame of such a cell as comparisons read it."""
    return read_units(write_scores(Path(folder) / "cell.parquet", prompts, clusters)).frame
