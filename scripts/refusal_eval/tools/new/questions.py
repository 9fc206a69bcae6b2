"""Questions on a terminal, each with a default that Enter takes."""

from collections.abc import Sequence

import typer


def ask_names(question: str, default: Sequence[str]) -> list[str]:
    """Return the names that a user gives, with commas or blanks between them."""
    said = typer.prompt(question, default=",".join(default), show_default=bool(default))
    return str(said).replace(",", " ").split()


def ask_number(question: str, default: int) -> int:
    """Return a positive number."""
    while True:
        number = int(typer.prompt(question, default=default, type=int))
        if number >= 1:
            return number
        typer.echo("It must be 1 or more.")


def ask_whether(question: str) -> bool:
    return typer.confirm(question, default=False)
