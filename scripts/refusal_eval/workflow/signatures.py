"""Stages that Snakemake can ask quickly."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

Stage = TypeVar("Stage")


def quick_to_ask(stage: Stage) -> Stage:
    """Return a stage whose public methods are plain functions of the same names, with their signatures ready.

    Snakemake reads the signature of a function up to five times for each job it plans, and working one out for a
    method takes longer than the method itself: a tenth of a dry run of 5,500 jobs.
    """
    for name, method in inspect.getmembers(stage, inspect.ismethod):
        if not name.startswith("_"):
            setattr(stage, name, _with_signature(method))
    return stage


def _with_signature(method: Callable[..., Any]) -> Callable[..., Any]:
    def ask(*arguments: Any, **named: Any) -> Any:
        return method(*arguments, **named)

    ask.__name__ = method.__name__
    ask.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]
    return ask
