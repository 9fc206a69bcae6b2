"""The BibTeX of the catalogue, and the reader of BibTeX files."""

import re
from pathlib import Path

FILE = Path("config", "catalogue", "references.bib")
_ENTRY = re.compile(r"^@\w+\{([^,\s]+),.*?^\}$", re.MULTILINE | re.DOTALL)


def read_references(root: str | Path) -> dict[str, str]:
    """Return the BibTeX entries that come with refusal-eval, by key."""
    path = Path(root) / FILE
    return read_bibtex(path.read_text(encoding="utf-8-sig")) if path.is_file() else {}


def read_bibtex(text: str) -> dict[str, str]:
    """Return the entries of a BibTeX file by key.

    An entry starts at an `@` in the first column and ends with a line that is `}`; what stands between is left out.
    """
    return {entry[1]: entry[0] for entry in _ENTRY.finditer(text)}
