"""The files that tables and figures are made of, by noun."""

from collections.abc import Iterable, Sequence

from snakemake.io import expand

from refusal_eval.study.study import Study
from refusal_eval.workflow.analysis import analyses_of

# Within the study's results; every other noun is an analysis, whose file is there if the study has it.
PATTERNS = {
    "estimates": "estimates/cells/{judge}/{model}.json",
    "cells": "scores/{judge}/{model}/{split}.parquet",
    "cards": "judge_cards/{judge}/{gold}.json",
    "results": "results_table/results.csv",
    "published": "published/scores/{judge}/{model}/{split}.json",
    "separation": "separation/{separation}.csv",
}


def noun_files(study: Study, nouns: Iterable[str], **names: Sequence[str]) -> dict[str, list[str]]:
    """Return the files of each noun, sorted by the names in them.

    Args:
        names: the `judge`s, `model`s and so on that the patterns are filled with.
    """
    found = {}
    for noun in nouns:
        if noun in PATTERNS:
            paths = expand(PATTERNS[noun], **{key: sorted(of) for key, of in names.items()})
        else:
            paths = [f"estimates/{noun}.json"] if noun in analyses_of(study) else []
        found[noun] = [f"{study.paths.results}/{path}" for path in paths]
    return found
