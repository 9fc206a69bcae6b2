"""Models of a study whose answers may be of different length, for the log of a run and of `refusal-eval plan`."""

from collections.abc import Iterator

from refusal_eval.study.study import Study

MOST_NAMES = 3  # models that are named for each length


def about_lengths(study: Study) -> str | None:
    """Return what to say where models that are asked differ in `max_tokens`; None where they do not.

    Reasoning counts among the tokens, so that models with it are compared among themselves, as are those without.
    """
    lines = [line for reasons in (False, True) for line in _lengths(study, reasons)]
    if not lines:
        return None
    head = (
        "Models of this study have different `max_tokens`, so that their shares of cut answers, and refusals that come "
        "late in an answer, cannot be compared. Give them one, unless you mean it:"
    )
    return "\n    ".join([head, *lines])


def _lengths(study: Study, reasons: bool) -> Iterator[str]:
    """Yield the models of each length, the shortest first, if there are several lengths."""
    by_length: dict[int, list[str]] = {}
    for name, model in study.models.items():
        if model.asks_engine and model.longest is not None and (model.reasoning is not None) == reasons:
            by_length.setdefault(model.longest, []).append(name)
    for length, names in sorted(by_length.items()) if len(by_length) > 1 else ():
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        yield f"{length}{' with reasoning' * reasons}: {', '.join(names[:MOST_NAMES])}{more}"
