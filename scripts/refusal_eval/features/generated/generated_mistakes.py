"""What is wrong with the splits that a study follows from their seeds on."""

from collections.abc import Iterator

from refusal_eval.config.checked_study import CheckedStudy
from refusal_eval.config.problems import Mistake
from refusal_eval.core.hints import nearest
from refusal_eval.core.states import HEADLINE_READING
from refusal_eval.features.generated.generated_chains import steps_between
from refusal_eval.features.generated.generated_keys import GeneratedKeys


def generated_mistakes(study: CheckedStudy) -> Iterator[Mistake]:
    """Yield names that are no splits of the study, and splits that are not made of their seeds or cannot be paired."""
    named = study.names("splits")
    for number, entry in enumerate(GeneratedKeys.of(study.settings).generated):
        here = ("generated", number)
        for key, name in (("split", entry.split), ("seeds", entry.seeds)):
            if name not in named and study.all_known("splits"):
                yield (*here, key), f"`{name}` is not one of `splits` of the study" + nearest(name, named)
        split, seeds = (study.splits.get(name) for name in (entry.split, entry.seeds))
        if split is None or seeds is None:
            continue
        if steps_between(study.catalogue.valid["splits"], entry.seeds, entry.split) is None:
            what = f"`{entry.split}` is not made of it; name the split at the beginning of its chain"
            yield (*here, "seeds"), what
        elif split.dialogue is not None or seeds.dialogue is not None:
            yield (*here, "split"), "dialogues cannot be paired with their seeds; name splits of one question each"
        readings = [one.headline or HEADLINE_READING[one.expectation] for one in (split, seeds)]
        if readings[0] != readings[1]:
            yield (
                (*here, "seeds"),
                f"`{entry.split}` and `{entry.seeds}` have different headline readings ({readings[0]} and "
                f"{readings[1]}); give both the same `headline`",
            )
