"""What the marks in the column `flags` of the results table mean."""

from __future__ import annotations

from collections.abc import Mapping

from refusal_eval.report.paper.display import MARKS

# Flags of rates corrected for the judge's errors (docs/corrected_rates.md); tables say these in words.
_OF_CORRECTED = {
    "not_headline": "a correction that rests on how the judge errs on answers of other models: never the headline",
    "not_identifiable": "no value: sensitivity and specificity on gold are too low to tell a rate",
    "at_odds_with_gold": "no value: with the errors that the judge makes on gold it could not say what it says here",
    "too_few_labels": "no value: too few answers were labelled by people",
    "unlabelled_splits": "no value: a split of the pool has no answer labelled by people",
    "undrawn_answers": "no value: answers came or changed after the sample for people was drawn",
}

# A pair of judges of which one opinion is part of both, such as a panel and its member.
SHARED_OPINION = "shared_opinion"

# flag: symbol in tables and figures (empty where it has none), meaning
FLAGS: Mapping[str, tuple[str, str]] = {
    **MARKS,
    **{flag: ("", meaning) for flag, meaning in _OF_CORRECTED.items()},
    SHARED_OPINION: ("", "the opinion of one judge is part of both judges (a panel and its member): they agree by it"),
}
