"""Cells and wildcards for the tests of refusal_eval/workflow/, of a study that has one entry of every kind."""

import itertools
from types import SimpleNamespace

from config_project import WHOLE_STUDY

CELLS = [
    {"model": model, "split": split}
    for model, split in itertools.product(sorted(WHOLE_STUDY["models"]), sorted(WHOLE_STUDY["splits"]))
]


def of(**wildcards):
    """Return wildcards as Snakemake gives them."""
    return SimpleNamespace(**wildcards)
