"""The form of the pages: wrapped by hand at 120 characters, and in words that a reader knows."""

import csv
import re
from pathlib import Path

import pytest
from test_links import PAGES

from refusal_eval.report.paper.display import EN_DASH, percent

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 120
OTHER_RULES = {"README.md"}  # test_readme.py has them
RUBRICS = re.compile(r"config/rubrics/")  # what a judge reads
EVIDENCE = ("coverage", "comparisons", "corrected_rates")
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


def test_the_main_table_that_is_explained_is_the_demos() -> None:
    page = (ROOT / "docs" / "start" / "main_table.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| SmolLM2")]
    with open(ROOT / "docs" / "demo_refusal.csv", encoding="utf-8", newline="") as handle:
        cells = {(row["model"], row["split"]): row for row in csv.DictReader(handle) if row["judge"] == "keyword"}
    splits = ("should_decline", "sensitive", "alarming_but_safe")
    for shown, model in zip(rows, ("smollm2-plain", "smollm2-declining"), strict=True):
        found = [cells[model, split] for split in splits]
        numbers = [tuple(percent(float(row[key])) for key in ("rate", "low", "high")) for row in found]
        assert shown[1:] == [f"{rate} [{low}{EN_DASH}{high}]" for rate, low, high in numbers]


# Idioms that no native speaker writes; `make schema` writes some pages from the code, whose texts they check, too.
STRANGE = (
    "what of",
    "for ever",
    "told apart",
    "dies of",
    "give or take",
    "in the manner",
    "stands beside",
)


@pytest.mark.parametrize("page", [page for page in PAGES if page != "CHANGELOG.md" and not RUBRICS.match(page)])
def test_no_page_has_a_strange_idiom(page: str) -> None:
    text = " ".join((ROOT / page).read_text(encoding="utf-8").lower().split())
    assert [idiom for idiom in STRANGE if re.search(rf"\b{idiom}\b", text)] == []


def test_reviewers_read_numbers_of_the_evidence() -> None:
    folder = ROOT / "docs" / "evidence"
    table = (folder / "for_reviewers.md").read_text(encoding="utf-8").split("## What was simulated", 1)[1]
    worst = set(re.findall(r"\b\d+\.\d\b(?= %)", table.split("Not simulated:", 1)[0]))
    pages = "\n".join((folder / f"{name}.md").read_text(encoding="utf-8") for name in EVIDENCE)
    assert len(worst) > 10
    assert {number for number in worst if not re.search(rf"(?<![\d.]){re.escape(number)}(?!\d)", pages)} == set()
