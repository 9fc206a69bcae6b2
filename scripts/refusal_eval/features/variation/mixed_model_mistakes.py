"""What a study with a mixed model lacks."""

from collections.abc import Iterator

from refusal_eval.config.checked_study import CheckedStudy
from refusal_eval.config.problems import Mistake
from refusal_eval.features.variation.variation_keys import VariationKeys


def mixed_model_mistakes(study: CheckedStudy) -> Iterator[Mistake]:
    if VariationKeys.of(study.settings).mixed_model and study.settings.samples == 1:
        message = "with one answer per prompt, sampling cannot be separated from differences between prompts; "
        yield ("mixed_model",), message + "`samples` must be at least 2 (it is 1), or leave this out"
