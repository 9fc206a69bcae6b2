"""Every link of every page leads to a file that is there, and to a heading of it."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WHERE = ("*.md", "*/README.md", "config/**/*.md", "docs/**/*.md", "benchmarks/**/*.md")
FOUND = {page for pattern in WHERE for page in ROOT.glob(pattern)}
PAGES = sorted(name for page in FOUND if not (name := page.relative_to(ROOT).as_posix()).startswith("."))
NAMING = {".py", ".j2", ".yaml", ".smk", ".md", ".json"}
FENCED = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)


@cache
def text_of(page: Path) -> str:
    """Return a page without what stands in fenced blocks."""
    return FENCED.sub("", page.read_text(encoding="utf-8"))


@cache
def anchors_of(page: Path) -> frozenset[str]:
    """Return what links may lead to within a page, as hosts name its headings."""
    titles = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title) for title in re.findall(r"^#+ (.*)$", text_of(page), re.M)]
    named = re.findall(r'<a id="([^"]+)">', text_of(page))
    return frozenset([*named, *(re.sub(r"[^\w -]", "", title.strip().lower()).replace(" ", "-") for title in titles)])


def links_of(page: Path) -> list[str]:
    """Return the links of a page that lead to no other host."""
    links = re.findall(r"\]\(([^)\s]+)\)", text_of(page)) + re.findall(r'(?:src|href)="([^"]+)"', text_of(page))
    return [link for link in links if not link.startswith(("https://", "http://", "mailto:"))]


def test_the_pages_are_found() -> None:
    assert {"README.md", "config/README.md", "docs/how-to/runs.md", "docs/how-to/extending.md"} <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_to_a_file_and_a_heading(page: str) -> None:
    wrong = []
    for link in links_of(ROOT / page):
        name, _, anchor = link.partition("#")
        target = (ROOT / page).parent / name if name else ROOT / page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors_of(target)):
            wrong.append(link)
    assert wrong == []


def test_every_page_that_code_and_config_name_is_there() -> None:
    folders = ("scripts", "workflow", "config", "benchmarks", "profiles", "tests", "envs")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in NAMING]
    files += [ROOT / name for name in ("Makefile", "CITATION.cff", ".snakemake-workflow-catalog.yml", "mkdocs.yml")]
    named = {
        (page, path.relative_to(ROOT).as_posix())
        for path in files
        for page in re.findall(r"(?<![\w/.])docs/[\w/-]+\.md", path.read_text(encoding="utf-8", errors="replace"))
    }
    assert len(named) > 50
    assert sorted((page, file) for page, file in named if not (ROOT / page).is_file()) == []
