"""What each estimand of the results table is, by its name."""

from __future__ import annotations

import re

from refusal_eval.report.results.definition import Definition
from refusal_eval.report.results.of_analyses import OF_ANALYSES
from refusal_eval.report.results.of_scores import OF_SCORES

DEFINITIONS = (*OF_SCORES, *OF_ANALYSES)
_BY_NAME = {definition.name: definition for definition in DEFINITIONS}


def pattern_of(estimand: str) -> str:
    """Return an estimand's name with `@K` for the number of samples in it."""
    return re.sub(r"@\d+", "@K", estimand)


def definition_of(estimand: str) -> Definition | None:
    """Return what an estimand is, None where nobody wrote it down."""
    return _BY_NAME.get(pattern_of(estimand))
