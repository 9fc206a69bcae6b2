"""Pages that show the answers of a study: a feature brings a kind of them, and the cells of tables link to it."""

from collections.abc import Callable, Mapping
from typing import ClassVar
from urllib.parse import quote

# What a cell of a table is about: names of a `model`, a `split`, a `judge`, a `category`, a `state` of answers.
AboutCell = Mapping[str, str]
CellLink = Callable[[AboutCell], str | None]  # the address of a cell's answers; None where it leads nowhere


class AnswerPage:
    """One kind of page with all answers of a study.

    Attributes:
        name: by which the kind is found.
        noun: the row of the table of files (study/files.py) that names the page and says which studies have it.
        asked_by: the key of a study file that asks for it, which is true then.
        shows: what it shows, in a few words.
    """

    name: ClassVar[str]
    noun: ClassVar[str]
    asked_by: ClassVar[str]
    shows: ClassVar[str]

    @staticmethod
    def fragment(cell: AboutCell) -> str:
        """Return the fragment of the address that shows the answers behind a cell."""
        raise NotImplementedError


def cell_link(pages: Mapping[type[AnswerPage], str]) -> CellLink:
    """Return what links a cell to the first of these pages, given their paths from the table's own folder."""

    def link(cell: AboutCell) -> str | None:
        return next((f"{quote(path)}#{page.fragment(cell)}" for page, path in pages.items()), None)

    return link
