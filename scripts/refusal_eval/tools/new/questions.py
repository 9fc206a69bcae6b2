"""Questions on a terminal, each with a default that Enter takes."""

from collections.abc import Sequence

import typer


def ask_names(question: str, default: Sequence[str]) -> list[str]:
    """Return the names that a user gives, with commas or blanks between them."""
    said = typer.prompt(question, default=",".join(default), show_default=bool(default))
    return str(said).replace(",", " ").split()


def ask_number(question: str, default: int) -> int:
    """Return a positive number."""
    return int(typer.prompt(question, default=default, type=typer.IntRange(min=1)))


def ask_whether(question: str) -> bool:
    return typer.confirm(question, default=False)
