"""The form of the pages: wrapped by hand at 120 characters, and in words that a reader knows."""

import re
from pathlib import Path

import pytest
from test_links import PAGES

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 120
OTHER_RULES = {"README.md"}  # test_readme.py has them
RUBRICS = re.compile(r"config/rubrics/")  # what a judge reads
FENCED = re.compile(r"^ *(```|~~~)")


def lines_of_text(page: str) -> list[str]:
    """Return a page's lines but for tables, fenced blocks and indented code."""
    found, fenced, code, before = [], False, False, ""
    for line in (ROOT / page).read_text(encoding="utf-8").splitlines():
        if FENCED.match(line):
            fenced = not fenced
        indented = line.startswith("    ") and not re.match(r" *([-*]|\d+\.) ", line)
        code = (indented and (code or not before.strip())) or (code and not line.strip())
        if not (fenced or code or line.lstrip().startswith(("|", "<img"))):
            found.append(line)
        before = line
    return found


def can_be_broken(line: str) -> bool:
    return " " in re.sub(r"^ *([-*] |\d+\. |> |#+ )?", "", line[:WIDTH])


@pytest.mark.parametrize("page", [page for page in PAGES if page not in OTHER_RULES and not RUBRICS.match(page)])
def test_lines_are_wrapped_at_120_characters(page: str) -> None:
    assert [line for line in lines_of_text(page) if len(line) > WIDTH and can_be_broken(line)] == []
