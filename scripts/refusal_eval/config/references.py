"""BibTeX of the catalogue: which keys there are, and which of them a study has to cite."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

FILE = Path("config", "catalogue", "references.bib")
ENTRY = re.compile(r"^@\w+\{([^,\s]+),.*?^\}$", re.MULTILINE | re.DOTALL)


def read_references(root: str | Path) -> dict[str, str]:
    """Return the BibTeX entries that come with refusal-eval, by key.

    An entry starts at an `@` in the first column and ends with a line that is `}`; what stands between is left out.
    """
    path = Path(root) / FILE
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return {entry[1]: entry[0].strip() for entry in ENTRY.finditer(text)}


def bibliography(entries: Iterable[Mapping[str, Any]], references: Mapping[str, str]) -> str:
    """Return what entries cite as one BibTeX text, each item once, in the order in which they are cited."""
    cited = dict.fromkeys(item for entry in entries for item in entry.get("citation") or ())
    return "\n\n".join(references.get(item, item).strip() for item in cited) + ("\n" if cited else "")
