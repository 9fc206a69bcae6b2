"""The files of the published code's reading of answers and of verdicts."""

import itertools

from refusal_eval.study.files import File, Names, all_cells
from refusal_eval.study.study import Study


def _shown(study: Study) -> bool:
    return any("published" in table.needs for table in study.tables.values())


def _answers(study: Study) -> list[Names]:
    """Return the cells whose responses are in the store; recorded answers come with what is made of them."""
    return list(itertools.product(study.asked_models, study.splits)) if _shown(study) else []


PUBLISHED_ANSWERS = File(
    ("published/answers/{model}/{split}.jsonl",),
    ("published_answers",),
    _answers,
    of_report=True,
    after="scores",
)
PUBLISHED = File(
    ("published/scores/{judge}/{model}/{split}.json",),
    ("published_scores",),
    lambda study: all_cells(study) if _shown(study) else [],
    of_report=True,
    from_verdicts=True,
    after="published_answers",
)
