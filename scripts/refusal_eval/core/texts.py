"""Texts that models, raters and files bring along: refused where they are none, bounded, shown, written as CSV."""

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Sequence

from refusal_eval.core.errors import UserError

MOST_MARKS = 30  # on one letter, as in Unicode's stream-safe text; no language needs more than a few
# What cannot be seen or changes how the text around it is shown: control characters, bidirectional overrides and
# isolates, interlinear and tag characters, half surrogate pairs. Marks that ordinary Arabic or Hebrew needs stay.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)
# Unicode's Default_Ignorable_Code_Point and category Cf, written out so that every Python drops the same: soft hyphens,
# zero-width spaces, marks of direction, variation selectors. Nobody sees them, and they would split a phrase.
INVISIBLE = re.compile(
    "[\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]+"
)
# Seen as nothing, too: control characters, the blank of Braille, a note without a head.
_BLANK = re.compile("[\x00-\x1f\x7f-\x9f\u2800\U0001d159]+")
# A cell that a spreadsheet would compute, perhaps without what it cannot show, or whose beginning it would drop. An
# apostrophe before it counts too, so that an escaped cell has the same form and what is escaped twice comes back in two
# steps.
_UNSHOWN = (
    "\x00-\x20\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f"
    "\u205f-\u206f\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_FORMULA = re.compile(f"'*(?:[{_UNSHOWN}]*[=+\\-@\uff1d\uff0b\uff0d\uff20\ufe62\ufe63\ufe66\ufe6b]|[\t\r\n])")
# A line that git, hg or svn leaves where two versions of a file differ.
MERGE_MARK = re.compile(r"(?:(?:<{7}|>{7}|\|{7})(?: [^\r\n]*)?|={7})\r?\n?")
_DENSE = re.compile(f"[\u0300-\U0010ffff]{{{MOST_MARKS + 1},}}")  # before U+0300 no character combines


def nfkc(text: str) -> str:
    """Return a text in NFKC, without the combining marks of a letter beyond the thirtieth.

    Putting marks in order takes time that grows with the square of their number.
    """
    if _DENSE.search(text):
        # By what they decompose to: a halfwidth sound mark combines only then.
        marks = "".join(sorted(c for c in set(text) if unicodedata.combining(unicodedata.normalize("NFKD", c)[0])))
        if marks:
            text = re.sub(f"([{marks}]{{{MOST_MARKS}}})[{marks}]+", r"\1", text)
    return unicodedata.normalize("NFKC", text)


def without_invisible(text: str) -> str:
    """Return `text` without invisible characters; white space stays."""
    return INVISIBLE.sub("", text)


def is_blank(text: str) -> bool:
    """Tell whether a text has nothing but white space and invisible characters."""
    return not _BLANK.sub("", without_invisible(text)).strip()


def valid_text(text: str, place: str) -> str:
    r"""Return `text` as it is.

    Raises:
        UserError: if it holds half of a surrogate pair ("\ud83d" alone), which is no text and can't be sent.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        code = f"\\u{ord(text[error.start]):04x}"
        raise UserError(
            f"{place}: holds {code} alone, half of a surrogate pair (character {error.start + 1}); mend the text"
        ) from error
    return text


def visible(text: str) -> str:
    """Return a text with line ends as "\\n" and characters that hide or reorder others as codes, `[U+202E]`."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _UNSEEN.sub(lambda found: f"[U+{ord(found[0]):04X}]", text)


def escaped_cell(text: str) -> str:
    """Return a CSV cell that no spreadsheet takes for a formula: an apostrophe before = + - @, tab or line end."""
    return "'" + text if _FORMULA.match(text) else text


def plain_cell(cell: str) -> str:
    """Undo `escaped_cell`."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell[1:]) else cell


def csv_line(cells: Iterable[object]) -> str:
    """Return a line of a CSV; None is an empty field, and no line end in a cell ends the row, a bare "\\r" neither."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow(cells)  # quotes what holds either
    return out.getvalue().removesuffix("\r\n") + "\n"


def ranges(numbers: Sequence[int], to: str = "-", between: str = ", ") -> str:
    """Return ascending numbers as people write them: 0-3, 7."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return between.join(str(first) if first == last else f"{first}{to}{last}" for first, last in runs)
