"""What a terminal shows better than a file: colours, where there is one and the user wants them."""

import os
import re
import sys
from collections.abc import Mapping
from typing import TextIO

RED, YELLOW, GREEN, BOLD, END = "\x1b[31m", "\x1b[33m", "\x1b[32m", "\x1b[1m", "\x1b[0m"
STATES = {"FAIL": RED, "WARN": YELLOW, "ok": GREEN}
STATE = re.compile(r"^(FAIL|WARN|ok)(?= )", re.MULTILINE)
# `WHAT RUNS   cells ...`, `LICENCES (as ...)`, and sentences that announce what is below them.
HEADING = re.compile(r"^(?!FAIL|WARN)(?:[A-Z]{4,}(?: [A-Z]+)*(?= {2}|$| \()|[A-Z][^\n]{3,90}:$)", re.MULTILINE)


def has_colours(stream: TextIO, variables: Mapping[str, str] = os.environ) -> bool:
    """Return whether a stream is a terminal that shows colours, and the user did not forbid them."""
    return stream.isatty() and not variables.get("NO_COLOR") and variables.get("TERM") != "dumb"


def painted(text: str) -> str:
    """Return a page with outcomes in colour and headings in bold."""
    text = HEADING.sub(lambda found: f"{BOLD}{found[0]}{END}", text)
    return STATE.sub(lambda found: f"{STATES[found[0]]}{found[0]}{END}", text)


def show(text: str) -> None:
    """Print a page, with colours where they can be seen."""
    print(painted(text) if has_colours(sys.stdout) else text, flush=True)
