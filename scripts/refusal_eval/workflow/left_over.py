"""Tables, figures and the like that a study no longer makes: they stay beside its current ones, and look like them."""

from collections.abc import Iterable
from pathlib import Path

FOLDERS = ("tables", "figures", "directions", "separation")


def left_over(results: str, made: Iterable[str]) -> list[str]:
    """Return the files in these folders of a study's results that are not among those it makes; names within them."""
    current = {Path(path) for path in made}
    there = [path for name in FOLDERS for path in Path(results, name).rglob("[!.]*") if path.is_file()]
    return sorted(path.relative_to(results).as_posix() for path in there if path not in current)


def about_left_over(results: str, names: Iterable[str]) -> str:
    """Return what to say about such files."""
    return f"This study no longer makes these files in {results}; they may hold old numbers: {', '.join(names)}"
