"""What a study with hosted engines lacks."""

from collections.abc import Iterator

from refusal_eval.config.checked_study import CheckedStudy
from refusal_eval.config.problems import Mistake
from refusal_eval.features.hosted.budget_keys import BudgetKeys
from refusal_eval.features.hosted.hosted_entry import Hosted


def hosted_mistakes(study: CheckedStudy) -> Iterator[Mistake]:
    """Yield sampling parameters that are not sent, and what makes a budget impossible to hold."""
    budget = BudgetKeys.of(study.settings).budget
    currencies: dict[str, str] = {}
    for section, name, entry in study.engine_users():
        engine = study.engine_of(entry)
        if not isinstance(engine, Hosted):
            continue
        drawn = getattr(entry, "sampling", None)  # some judges have none
        if drawn is not None and getattr(entry, "asks_engine", True):
            for parameter in engine.unsent(drawn.model_dump()):
                message = f"an engine of kind `{engine.kind}` does not send it; leave it out, or let `parameters` of "
                message += f"engine `{entry.engine}` say what it is called there: `{{{parameter}: {parameter}}}`"
                yield (section, name, "sampling", parameter), message
        if budget is None:
            continue
        here = ("engines", entry.engine)
        if engine.price is None:
            message = "a study with a `budget` needs the price of each hosted engine: "
            yield (*here, "price"), message + "`{input: 2.5, output: 10, date: 2026-11-01, currency: USD}`"
        else:
            currencies[engine.price.currency] = entry.engine
        if engine.parameters.get("max_tokens", "") is None:
            message = "without it an answer can cost any sum, and the study has a `budget`; leave one of them out"
            yield (*here, "parameters", "max_tokens"), message
    if len(currencies) > 1:
        (one, first), (other, second) = list(currencies.items())[:2]
        message = (
            f"the prices of engines `{first}` and `{second}` are in {one} and {other}; a budget is in one currency"
        )
        yield ("budget",), message
