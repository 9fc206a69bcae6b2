"""What a study with the answers of battles lacks."""

from collections.abc import Iterator

from refusal_eval.config.checked_study import CheckedStudy
from refusal_eval.config.problems import Mistake
from refusal_eval.core.recorded_files import IN_ROWS
from refusal_eval.features.battles.battles_keys import BattlesKeys


def battles_mistakes(study: CheckedStudy) -> Iterator[Mistake]:
    """Yield what a study lacks for models whose answers are those of battles."""
    without = [split for split, entry in study.splits.items() if BattlesKeys.of(entry).battles is None]
    for name, model in study.models.items():
        if model.recorded != IN_ROWS:
            continue
        if without:
            why = f"takes the answers from the splits, and `{without[0]}` has no `battles` (docs/reference/battles.md)"
            yield ("models", name, "recorded"), f"`{IN_ROWS}` {why}"
        if model.reasoning is not None:
            yield ("models", name, "reasoning"), "answers of battles are taken whole; leave it out"
        if study.settings.samples not in (None, 2):
            why = f"so `samples` must be 2 with model `{name}` (it is {study.settings.samples})"
            yield ("samples",), f"a battle has two answers, {why}"
