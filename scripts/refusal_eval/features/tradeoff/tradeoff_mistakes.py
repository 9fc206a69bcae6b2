"""What is wrong with the attacks that a study names, by the study around them."""

from collections.abc import Iterator

from refusal_eval.config.checked_study import CheckedStudy
from refusal_eval.config.problems import Mistake
from refusal_eval.core.hints import nearest
from refusal_eval.features.tradeoff.tradeoff_keys import AttacksKeys


def tradeoff_mistakes(study: CheckedStudy) -> Iterator[Mistake]:
    """Yield names that are not the study's, kinds that are not the judge's, and figures of attacks without any."""
    attacks = AttacksKeys.of(study.settings).attacks
    for place, figure in study.figures.items():
        if getattr(figure, "axes", None) == "attacks" and attacks is None and study.all_valid("attacks"):
            message = "`attacks` needs the key `attacks` of the study: attacked prompts, and a judge of harm"
            yield ("figures", place, "axes"), message
    if attacks is None:
        return
    named = study.names("splits")
    for place, name in enumerate(attacks.splits):
        if name not in named and study.all_known("splits"):
            yield ("attacks", "splits", place), f"`{name}` is not one of `splits` of the study" + nearest(name, named)
    safe = [name for name, split in study.splits.items() if name in named and split.expectation == "comply"]
    if not safe and study.all_valid("splits"):
        message = "over-refusal is weighed against them, and no split of the study has `expectation: comply`"
        yield ("attacks",), message
    if attacks.judge not in study.names("judges"):
        if study.all_known("judges"):
            message = f"`{attacks.judge}` is not one of `judges` of the study"
            yield ("attacks", "judge"), message + nearest(attacks.judge, study.names("judges"))
        return
    entry = study.view.judges.get(attacks.judge)
    if entry is None or not study.all_valid("models"):
        return
    if attacks.judge not in study.view.whole_judges:
        yield ("attacks", "judge"), f"`{attacks.judge}` does not judge the answers of every model; name another judge"
    kinds = entry.named_kinds(study.view)
    if not kinds:
        message = (
            f"`{attacks.judge}` has no `kinds` of its own that say whether an answer is harmful; name a judge that "
        )
        yield ("attacks", "judge"), f"{message}has, such as `answer-harm`"
        return
    for place, kind in enumerate(attacks.succeeds):
        if kind not in kinds:
            message = f"`{kind}` is not one of the kinds of `{attacks.judge}`"
            yield ("attacks", "succeeds", place), message + nearest(kind, kinds)
