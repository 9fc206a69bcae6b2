"""What is wrong with the choices of a study, by the study around them."""

from collections.abc import Iterator

from refusal_eval.config.checked_study import CheckedStudy
from refusal_eval.config.problems import Mistake
from refusal_eval.config.shapes import KeyPath
from refusal_eval.core.hints import nearest
from refusal_eval.features.choices.choices_keys import Choice


def choice_mistakes(study: CheckedStudy) -> Iterator[Mistake]:
    """Yield names that are not the study's, and names that two choices have."""
    seen: set[str] = set()
    for number, choice in study.valid_items("choices", Choice).items():
        here = ("choices", number)
        if choice.name in seen:
            yield (*here, "name"), f"another choice is called `{choice.name}` too"
        seen.add(choice.name)
        named: list[tuple[KeyPath, str, str]] = [(("against",), choice.against, "models")]
        named += [(("models", place), name, "models") for place, name in enumerate(choice.models)]
        named += [
            ((key, place), name, "splits")
            for key, names in (("refusals", choice.refusals), ("others", choice.others))
            for place, name in enumerate(names)
        ]
        named += [(("judge",), choice.judge, "judges")] if choice.judge is not None else []
        for place, name, section in named:
            if study.all_known(section) and name not in study.names(section):
                members = study.catalogue.swept.get(name) if section == "models" else None
                hint = f"; it is a sweep: name its models, `{members[0]}` ..." if members else ""
                message = f"`{name}` is not one of `{section}` of the study"
                yield (*here, *place), message + (hint or nearest(name, study.names(section)))
