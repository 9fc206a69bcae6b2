"""What a study with models that have refusal tokens lacks."""

from collections.abc import Iterator

from refusal_eval.config.checked_study import CheckedStudy
from refusal_eval.config.problems import Mistake
from refusal_eval.config.protocol import DEFAULT
from refusal_eval.features.refusal_tokens.token_keys import TokenChoiceKeys, branch_of

NEEDS = "label_probabilities"  # a capability of engines


def refusal_token_mistakes(study: CheckedStudy) -> Iterator[Mistake]:
    """Yield what is wrong with the branches that a study has, and with what it asks them.

    Whether a text is one token only the tokenizer says; the rule `token_requests` asks it before any load.
    """
    told = set[str]()
    families = any(branch_of(model) is not None for model in study.models.values())
    if TokenChoiceKeys.of(study.settings).refusal_tokens is not None and not families and study.all_valid("models"):
        yield ("refusal_tokens",), "the study has no model with `refusal_tokens`; leave the key out"
    for name, model in study.models.items():
        tokens = branch_of(model)
        if tokens is None or tokens.of in told:
            continue
        told.add(str(tokens.of))
        here = ("models", name, "refusal_tokens")
        listed = study.names("models")
        missing = [branch for branch in tokens.tokens if f"{tokens.of}.{branch}" not in listed]
        if missing and f"{tokens.of}.{tokens.branch}" in listed:
            message = (
                f"the study has `{name}` and lacks the branch `{tokens.of}.{missing[0]}`; list `{tokens.of}`, which "
            )
            yield ("models", listed.index(name)), message + "stands for all of its branches"
        engine = study.engine_of(model)
        if engine is not None and NEEDS not in engine.able():
            message = f"engine `{model.engine}` (kind {engine.kind}) does not give the probabilities of named tokens"
            yield here, f"{message}; choose one that does, such as kind vllm"
        if study.settings.protocol != DEFAULT:
            message = (
                f"they are asked as templates render prompts, and not as `protocol: {study.settings.protocol}` does"
            )
            yield here, f"{message}; leave one of them out"
        yield from _of_splits(study, name)


def _of_splits(study: CheckedStudy, name: str) -> Iterator[Mistake]:
    of_dialogues = [split for split, entry in study.view.splits.items() if entry is not None and entry.dialogue]
    if of_dialogues:
        message = f"`{of_dialogues[0]}` has dialogues, and a reply begins with a refusal token in its first turn alone"
        yield ("models", name, "refusal_tokens"), f"{message}; take the split out"
