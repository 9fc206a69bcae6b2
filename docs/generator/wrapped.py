"""Long lines of generated pages, broken as those of the other pages are."""

import re
import textwrap

WIDTH = 120
CODE = re.compile(r"(`+[^`]+`+)")
BLANK = "\N{NO-BREAK SPACE}"  # for blanks in code while a line is broken


def wrapped(page: str) -> str:
    """Return a page whose lines of text have 120 characters at most; tables and fenced blocks are left."""
    parts = re.split(r"(^ *```.*?^ *```)", page, flags=re.DOTALL | re.MULTILINE)
    parts[::2] = ["\n".join(_broken(line) for line in part.split("\n")) for part in parts[::2]]
    return "".join(parts)


def _broken(line: str) -> str:
    if len(line) <= WIDTH or line.lstrip().startswith(("|", "#", "<")):
        return line
    kept = CODE.sub(lambda match: match[1].replace(" ", BLANK), line)
    indent = " " * (len(line) - len(re.sub(r"^ *([-*] |\d+\. )?", "", line)))
    filled = textwrap.fill(kept, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return filled.replace(BLANK, " ")
