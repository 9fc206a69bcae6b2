"""The program `refusal-eval`: a verb for each thing that a user does beside running Snakemake."""

import importlib
import os
import sys
from collections.abc import Sequence

# Verb, its module below `tools`, and what it does. The module holds `command`: a function with typer's annotations, or
# an app with verbs of its own. Only the module of the verb that is asked for is imported.
VERBS = {
    "check": ("check.check_command", "check this machine before a run, or one model's answers"),
    "pin": ("pin.pin_command", "write the commit of every repository of a study into a lock file"),
    "plan": ("plan.plan_command", "show a study's costs, terms and unverified facts before anything runs"),
    "status": ("status.status_command", "show which cells of a study are done, missing or failed, and why"),
    "verify": ("verify.verify_command", "recompute a finished study's numbers and compare"),
    "bench-judges": ("bench.bench_command", "measure a study's judges on its gold, rank them, and write a page"),
    "compare": ("compare.compare_command", "compare two finished studies"),
    "power": ("power.power_command", "estimate what a comparison of two models can find, from numbers or a pilot"),
    "audit": ("audit.audit_command", "draw a sample of answers for people to label, and read their labels back"),
    "import": ("published.import_command", "make a study from a config of the published library"),
    "export": ("published.export_command", "write a finished study in the published library's layout"),
    "store": ("store.store_command", "show what the store holds, and remove what no study uses"),
}


def usage() -> str:
    """Return the program's help."""
    width = max(map(len, VERBS))
    lines = ["Usage: refusal-eval VERB ...   (help on a verb: refusal-eval VERB --help)", ""]
    return "\n".join([*lines, *(f"  {verb:<{width}}  {does}" for verb, (_, does) in VERBS.items())])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb; return the exit code."""
    try:
        code = _in_its_environment(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads, such as `head`, has seen enough; and nothing is left to flush at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


def _in_its_environment(arguments: Sequence[str] | None) -> int:
    from refusal_eval.core.errors import UserError
    from refusal_eval.core.surroundings import about_strangers, refuse_locale

    try:
        refuse_locale()
        return _main(arguments)
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    except BrokenPipeError:
        raise
    except Exception as error:
        if (said := about_strangers(error)) is None:
            raise
        print(said, file=sys.stderr)
        return 1


def _main(arguments: Sequence[str] | None) -> int:
    from refusal_eval.core.hints import nearest

    verb, *rest = list(sys.argv[1:] if arguments is None else arguments) or [""]
    if verb in ("-h", "--help"):
        print(usage())
        return 0
    if verb not in VERBS:
        unknown = f"there is no verb `{verb}`{nearest(verb, VERBS)}\n\n" if verb else ""
        print(unknown + usage(), file=sys.stderr)
        return 2
    return _run(verb, rest)


def _run(verb: str, arguments: Sequence[str]) -> int:
    import typer

    from refusal_eval.config.problems import ConfigError
    from refusal_eval.core.errors import UserError
    from refusal_eval.core.texts import visible

    found = importlib.import_module(f"refusal_eval.tools.{VERBS[verb][0]}").command
    app = found
    if not isinstance(found, typer.Typer):
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        app.command()(found)
    try:
        app(list(arguments), prog_name=f"refusal-eval {verb}")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0
    except BrokenPipeError:
        raise
    except (ConfigError, UserError, OSError) as error:
        print(visible(str(error)), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
