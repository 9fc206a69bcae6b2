"""The format of the paper that a study's figures and tables go into: the width of its text and of its columns."""

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints, ValidationInfo, field_validator

from refusal_eval.config.shapes import LENGTH, PAPER_WIDTH, Entry

_UNITS = {"cm": 1.0, "mm": 0.1, "in": 2.54, "pt": 2.54 / 72.27}  # centimetres; a point is that of LaTeX
_NARROWEST, _WIDEST = 5.0, 60.0  # centimetres


@dataclass(frozen=True)
class PaperFormat:
    """Widths in centimetres."""

    page: float  # of its text
    column: float  # of a column; that of the text where it has one column

    @property
    def two_columns(self) -> bool:
        return self.column < self.page


DEFAULT = PaperFormat(17.5, 8.5)
# What their LaTeX styles set, rounded down.
FORMATS = {
    "neurips": PaperFormat(13.97, 13.97),
    "icml": PaperFormat(17.14, 8.25),
    "acl": PaperFormat(16.0, 7.7),
    "iclr": PaperFormat(13.97, 13.97),
    "nature": PaperFormat(18.3, 8.9),
}


def centimetres(length: str) -> float:
    """Return a length such as `13.9cm` in centimetres."""
    number, unit = re.fullmatch(r"([\d.]+) ?([a-z]+)", length).groups()  # type: ignore[union-attr]
    return round(float(number) * _UNITS[unit], 4)


def _printable(length: str) -> str:
    if not _NARROWEST <= centimetres(length) <= _WIDEST:
        raise ValueError(f"a figure or table is {_NARROWEST:g} to {_WIDEST:g} cm wide, not {length}")
    return length


def _printable_if_length(width: str) -> str:
    return _printable(width) if width[0].isdigit() else width


Length = Annotated[str, StringConstraints(pattern=LENGTH), AfterValidator(_printable)]
FigureWidth = Annotated[str, StringConstraints(pattern=PAPER_WIDTH), AfterValidator(_printable_if_length)]


class PaperWidths(Entry):
    """The widths of a paper's format that has no name here."""

    width: Length = Field(description="Width of its text, such as `13.9cm`, `139mm`, `5.5in` or `397pt`.")
    column: Length | None = Field(
        None, description="Width of one of its columns. Default: it has one column, as wide as its text."
    )

    @field_validator("column")
    @classmethod
    def _within_text(cls, column: str | None, info: ValidationInfo) -> str | None:
        width = info.data.get("width")
        if column and width and centimetres(column) > centimetres(width):
            raise ValueError(f"a column of {column} is wider than the text (`width: {width}`)")
        return column


Paper = Literal["neurips", "icml", "acl", "iclr", "nature"] | PaperWidths


def format_of(paper: Any) -> PaperFormat:
    """Return the widths that a study's `paper` stands for."""
    if paper is None:
        return DEFAULT
    if isinstance(paper, PaperWidths):
        page = centimetres(paper.width)
        return PaperFormat(page, page if paper.column is None else centimetres(paper.column))
    return FORMATS[paper]


def width_in(paper: PaperFormat, width: str) -> float:
    """Return what `width` of a figure means in a paper of that format, in centimetres."""
    if width in FORMATS:
        return FORMATS[width].page
    return {"column": paper.column, "page": paper.page}[width] if width in ("column", "page") else centimetres(width)
