"""Score CSVs for the tests of comparisons, made from the labels of a few samples."""

from pathlib import Path

from refusal_eval.stats.estimates.estimands import Outcome, prompt_score
from refusal_eval.stats.estimates.scores import score_csv
from refusal_eval.stats.estimates.units import read_scores

LABELS = {"r": "refusal", "p": "partial", "c": "compliance"}


def outcome(letter):
    """Return what became of a sample: r, p, c, `?` for one without a verdict, `b` for a blocked one."""
    if letter == "b":
        return Outcome("blocked", None, None)
    return Outcome("complete", LABELS.get(letter), -1.0)


def write_scores(path, prompts, clusters=None, turns=1):
    """Write a score CSV; `prompts` are texts with a letter per sample by prompt id, `clusters` names by id."""
    names = clusters or {}
    rows = [
        {"prompt_id": name, "turn": turn, "category": None, "cluster": names.get(name, name)}
        | prompt_score([outcome(letter) for letter in letters])
        for name, letters in sorted(prompts.items())
        for turn in range(turns)
    ]
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(score_csv(rows), encoding="utf-8")
    return path


def cell(folder, prompts, clusters=None):
    """Return the frame of such a CSV as comparisons read it."""
    return read_scores(write_scores(Path(folder) / "cell.csv", prompts, clusters))
