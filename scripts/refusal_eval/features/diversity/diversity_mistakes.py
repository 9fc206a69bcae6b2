"""Names under `diversity` that are no splits of the study."""

from collections.abc import Iterator

from refusal_eval.config.checked_study import CheckedStudy
from refusal_eval.config.problems import Mistake
from refusal_eval.core.hints import nearest
from refusal_eval.features.diversity.diversity_keys import DiversityKeys


def diversity_mistakes(study: CheckedStudy) -> Iterator[Mistake]:
    """Yield names that are not among the study's splits."""
    named = study.names("splits")
    for place, name in enumerate(DiversityKeys.of(study.settings).diversity):
        if name not in named and study.all_known("splits"):
            yield ("diversity", place), f"`{name}` is not one of `splits` of the study" + nearest(name, named)
