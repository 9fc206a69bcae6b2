"""The documentation as a site: what its hooks make of our Markdown, and that all of it builds without a warning."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from flow_picture import flow_picture
from site_pages import address_of, path_of, relinked, spaced_lists

ROOT = Path(__file__).resolve().parents[2]
MKDOCS = ROOT / ".venv" / "docs" / "bin" / "mkdocs"


@pytest.mark.parametrize("path", ["docs/README.md", "docs/reference/gold.md", "config/README.md", "CHANGELOG.md"])
def test_a_page_keeps_its_place_from_the_repository_to_the_site_and_back(path: str) -> None:
    assert path_of(address_of(path)) == path


def test_links_lead_to_where_pages_are_in_the_site() -> None:
    page = "[a](../../config/README.md#study), [b](g.md), [c](http://a), [d](../../config/studies/arena.yaml), [e](#x)"
    assert relinked(page, "reference/judges.md") == (
        "[a](config.md#study), [b](g.md), [c](http://a), [d](../source/config/studies/arena.yaml.txt), [e](#x)"
    )
    assert relinked("[a](../docs/reference/gold.md)", "reference/config.md") == "[a](gold.md)"


def test_a_link_that_leads_nowhere_is_left_to_mkdocs() -> None:
    assert relinked("[a](nothing.md)", "reference/judges.md") == "[a](nothing.md)"


def test_a_link_to_a_folder_becomes_its_text() -> None:
    assert relinked("in [`catalogue/`](catalogue/), see", "reference/config.md") == "in `catalogue/`, see"


def test_lists_are_as_python_markdown_wants_them() -> None:
    text = "Text:\n- one\n  more\n\n      code\n  - inner\n- two\n\nText\n"
    assert spaced_lists(text) == "Text:\n\n- one\n    more\n\n        code\n\n    - inner\n- two\n\nText\n"


def test_an_item_below_an_item_of_two_paragraphs_is_an_item() -> None:
    assert spaced_lists("- one\n\n  more\n- two\n") == "- one\n\n    more\n\n- two\n"


def test_what_is_fenced_or_no_list_is_left() -> None:
    text = "It was\n1986. Then\n\n```yaml\na:\n- b\n```\n"
    assert spaced_lists(text) == text


def test_a_chart_becomes_a_picture_with_every_step_and_arrow() -> None:
    chart = 'flowchart TD\n    a_b["A & B"]\n    one & a_b --> two\n    two --> three\n    two -. append .-> store\n'
    picture = flow_picture(chart)
    assert re.findall(r">([^<>]+)</text>", picture) == ["one", "A &amp; B", "two", "three", "store"]
    assert picture.count("marker-end") == 4 and picture.count("stroke-dasharray") == 1


@pytest.mark.full
def test_the_site_builds_without_a_warning_and_needs_no_network(tmp_path: Path) -> None:
    if not MKDOCS.exists():
        pytest.skip("`make setup-docs` installs what makes the site")
    command = [MKDOCS, "build", "--strict", "--site-dir", tmp_path]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    made = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert made.returncode == 0 and "WARNING" not in made.stderr, made.stderr
    assert (tmp_path / "search" / "search_index.js").stat().st_size > 100_000
    pages = sorted(tmp_path.rglob("*.html"))
    fetched = {
        found
        for page in pages
        for found in re.findall(r'<(?:script|link|img)\b[^>]*?="(https?:[^"]+)', page.read_text())
    }
    assert len(pages) > 40 and fetched == set()
