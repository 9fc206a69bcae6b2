"""The program `refusal-eval`: a verb for each thing that a user does beside running Snakemake."""

import os
import sys
from collections.abc import Sequence

RUNS = "a study runs with `snakemake --cores all --configfile STUDY.yaml`"
# What users try for what Snakemake does.
OF_SNAKEMAKE = ("run", "start", "eval", "evaluate", "generate", "execute", "demo")
PLUGIN = "--plugin"  # before the verb: a Python file that adds verbs; may be repeated


def usage() -> str:
    """Return the program's help."""
    from refusal_eval.program.verb import VERBS

    verbs = {name: VERBS.get(name).does for name in VERBS.names()}
    width = max(map(len, verbs))
    return "\n".join(
        [
            "Usage: refusal-eval VERB ...   (help on a verb: refusal-eval VERB --help)",
            f"       refusal-eval {PLUGIN} FILE.py VERB ...   (with the verbs that a plug-in adds)",
            f"       refusal-eval --version                  ({RUNS})",
            "",
            *(f"  {name:<{width}}  {does}" for name, does in verbs.items()),
        ]
    )


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
        from refusal_eval.core.texts import visible

        print(visible(str(error)), file=sys.stderr)
        return 1
    except BrokenPipeError:
        raise
    except Exception as error:
        if (said := about_strangers(error)) is None:
            raise
        print(said, file=sys.stderr)
        return 1


def _main(arguments: Sequence[str] | None) -> int:
    from refusal_eval.program.verb import VERBS

    files, words = _plugins_of(sys.argv[1:] if arguments is None else arguments)
    if files:
        from refusal_eval.core.plugins import load_plugins

        load_plugins(files)
    verb, *rest = words or [""]
    if verb in ("-h", "--help"):
        print(usage())
        return 0
    if verb == "--version":
        from refusal_eval.core.version import VERSION

        print(f"refusal-eval {VERSION}")
        return 0
    if verb not in VERBS.names():
        print(_unknown(verb, VERBS.names()) if verb else usage(), file=sys.stderr)
        return 2
    return _run(verb, rest)


def _unknown(verb: str, known: Sequence[str]) -> str:
    from refusal_eval.core.hints import nearest_name

    if verb in OF_SNAKEMAKE:
        return (
            f"there is no verb `{verb}`: {RUNS}.\n`refusal-eval new` writes a study; `refusal-eval --help` lists verbs."
        )
    close = nearest_name(verb, known)
    hint = f"; did you mean `{close}`?" if close else "."
    return f"there is no verb `{verb}`{hint}\n`refusal-eval --help` lists all verbs; {RUNS}."


def _plugins_of(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the files of the plug-ins that are named before the verb, and the words from the verb on."""
    from refusal_eval.core.errors import UserError

    files, rest = list[str](), list(words)
    while rest and (rest[0] == PLUGIN or rest[0].startswith(f"{PLUGIN}=")):
        _, _, file = rest.pop(0).partition("=")
        file = file or (rest.pop(0) if rest else "")
        if not os.path.isfile(file):
            problem = f"there is no file {file}" if file else "name a Python file"
            raise UserError(f"`{PLUGIN}`: {problem}")
        files.append(file)
    return files, rest


def _run(verb: str, arguments: Sequence[str]) -> int:
    import typer

    from refusal_eval.config.problems import ConfigError
    from refusal_eval.core.errors import UserError
    from refusal_eval.core.texts import visible
    from refusal_eval.program.verb import VERBS

    found = VERBS.get(verb).command()
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
