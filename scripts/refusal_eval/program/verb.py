"""Verbs of the program `refusal-eval`: one class for each, in the folder of its tool or feature.

`VERBS` finds the classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeAlias

from refusal_eval.core.registry import Registry

if TYPE_CHECKING:  # the program's help needs no library
    from collections.abc import Callable

    import typer

Command: TypeAlias = "Callable[..., None] | typer.Typer"


class Verb:
    """One verb: `refusal-eval NAME`.

    The program imports the modules of all verbs for its help, so a verb's module imports little; `command` imports
    what the verb works with.

    Attributes:
        name: name of the verb.
        does: what it does, for the program's help: `show ...`.
    """

    name: ClassVar[str]
    does: ClassVar[str]

    @staticmethod
    def command() -> Command:
        """Return a function with typer annotations, or an app with subcommands."""
        raise NotImplementedError


VERBS = Registry(
    "verb",
    "VERBS",
    {
        "new": "refusal_eval.tools.new.new_verb:NewVerb",
        "check": "refusal_eval.tools.check.check_verb:CheckVerb",
        "pin": "refusal_eval.tools.pin.pin_verb:PinVerb",
        "plan": "refusal_eval.tools.plan.plan_verb:PlanVerb",
        "status": "refusal_eval.tools.status.status_verb:StatusVerb",
        "verify": "refusal_eval.tools.verify.verify_verb:VerifyVerb",
        "bench-judges": "refusal_eval.tools.bench.bench_verb:BenchJudgesVerb",
        "compare": "refusal_eval.tools.compare.compare_verb:CompareVerb",
        "power": "refusal_eval.tools.power.power_verb:PowerVerb",
        "store": "refusal_eval.tools.store.store_verb:StoreVerb",
        "export": "refusal_eval.tools.export.export_verb:ExportVerb",
    },
)
