"""What docs/reference/command_line.md says of each verb: the text of its `--help`, as Markdown."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from refusal_eval.program.text_templates import render_template
from refusal_eval.program.verb import VERBS

TEMPLATE = Path(__file__).with_name("command_line.md.j2")


def command_line_page() -> str:
    """Return the page of all verbs."""
    verbs = {name: VERBS.get(name).does for name in VERBS.names()}
    commands = [entry for name in verbs for entry in _commands(name, _click_command(name))]
    return render_template(TEMPLATE, {"verbs": verbs, "commands": commands})


def _click_command(name: str) -> Any:
    found = VERBS.get(name).command()
    if isinstance(found, typer.Typer):
        return typer.main.get_command(found)
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(found)
    return typer.main.get_command(app)


def _commands(name: str, command: Any) -> Iterator[dict[str, Any]]:
    """Yield what the page says of a command, and of its subcommands."""
    context = command.make_context(f"refusal-eval {name}", [], resilient_parsing=True)
    pieces = [piece for piece in command.collect_usage_pieces(context) if piece]
    parameters = [parameter for parameter in command.get_params(context) if "--help" not in parameter.opts]
    yield {
        "name": name,
        "usage": " ".join(["refusal-eval", name, *pieces]),
        "text": _paragraphs(command.help or ""),
        "parameters": [row for parameter in parameters if (row := _row(parameter, context))],
    }
    for sub in getattr(command, "commands", {}):
        yield from _commands(f"{name} {sub}", command.commands[sub])


def _row(parameter: Any, context: Any) -> str | None:
    """Return a line of the table of parameters, None for a hidden one."""
    record = parameter.get_help_record(context)
    if record is None:
        return None
    name, text = (" ".join(part.split()) for part in record)
    default = re.search(r" *\[(?:default: )?(.*)\]$", text)
    facts = default[1].removeprefix("default: ") if default else ""
    cells = (f"`{name}`", text[: default.start()] if default else text, facts)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _paragraphs(text: str) -> str:
    """Return a help text with each paragraph on one line, which is wrapped with the page."""
    parts = re.split(r"\n\s*\n", inspect.cleandoc(text.replace("\b", "")))
    linked = re.compile(r"\bdocs/(\w[\w-]*)/(\w+\.md)")
    return "\n\n".join(linked.sub(r"[\2](../\1/\2)", " ".join(part.split())) for part in parts)
