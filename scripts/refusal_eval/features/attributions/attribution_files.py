"""The files of attributions: what is asked, and the values of the words."""

from refusal_eval.features.attributions.attribution_keys import Attribution, AttributionKeys
from refusal_eval.study.files import File, Names, with_endings
from refusal_eval.study.study import Study


def attributions_of(study: Study) -> dict[str, Attribution]:
    """Return the attributions of a study, by name."""
    return AttributionKeys.of(study.settings).attributions


def _names(study: Study) -> list[Names]:
    return [(name,) for name in attributions_of(study)]


ATTRIBUTION_REQUESTS = File(
    ("attribution_requests/{attribution}.jsonl",), ("attribution_requests",), _names, after="requests"
)
# The values of each prompt for programs, and a row for each word for people.
ATTRIBUTION_VALUES = File(
    with_endings("attributions/{attribution}", "jsonl", "csv"),
    ("attribution_values",),
    _names,
    after="answers",
    of_report=True,
    shown=True,
)
