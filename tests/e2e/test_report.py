"""Snakemake's report of a study with hostile labels, opened in a real browser at the widths of a laptop and a desk."""

import csv
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import Browser, executable
from project import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

from made_up_study import STUDY, Size, make_study
from rule_jobs import planned, run

LABELS = (
    "</script><script>window.hacked = 1</script>",
    '"><img src=x onerror="window.hacked = 2">',
    "{{ 7 * 7 }} {% raw %} `x <javascript:window.hacked=3>`_ |x|",
    "\n.. raw:: html\n\n   <b>bold</b>",
)
WINDOWS = ((1280, 760), (2560, 1400))
# What a click on a menu's or a table's entry of this text does.
CLICK = """(() => {
  const found = [...document.querySelectorAll("a, tr")].filter(e => e.innerText.trim().startsWith(%r)).pop();
  (found.tagName === "TR" ? found.querySelector("a") : found).click();
})()"""

pytestmark = [pytest.mark.full, pytest.mark.timeout(15 * 60)]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished study; in it lies report/, its report."""
    executable()
    folder = tmp_path_factory.mktemp("report")
    file = make_study(folder, Size(models=4, splits=4, prompts=60, samples=2, judges=2, labels=LABELS), processes=2)
    assert list(run(planned(file, folder, {}), folder, processes=2))
    options = ["--configfile", file, "--cores", "1", "--report", "report.zip"]
    made = subprocess.run(
        [sys.executable, "-m", "snakemake", "-s", ROOT / "Snakefile", *options],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0 and "(ERROR" not in made.stderr, made.stderr[-3000:]
    with zipfile.ZipFile(folder / "report.zip") as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(params=WINDOWS, ids=lambda window: str(window[0]))
def browser(study: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Browser]:
    """The report, opened in a window of this size."""
    opened = Browser(tmp_path)
    opened.open(f"file://{study}/report/report.html", *request.param)
    opened.run("new Promise(done => setTimeout(done, 1000))")  # the page is built by scripts
    yield opened
    assert opened.run("window.hacked") is None
    assert opened.reported == []
    assert all(address.startswith(("file:", "data:", "blob:")) for address in opened.requested), opened.requested
    opened.close()


def rates(study: Path) -> list[str]:
    """The headline rates in percent, as tables show them."""
    with (study / "results" / STUDY / "tables" / "refusal.csv").open(encoding="utf-8") as file:
        return [f"{100 * float(row['rate']):.1f}" for row in csv.DictReader(file)]


def page_of(browser: Browser, section: str, entry: str) -> dict[str, Any]:
    """Open an entry of the report as a reader does; return address and width of the pane that shows it."""
    browser.run(CLICK % section)
    browser.run("new Promise(done => setTimeout(done, 300))")
    browser.run(CLICK % entry)
    browser.run("new Promise(done => setTimeout(done, 500))")
    found: dict[str, Any] = browser.run(
        "(() => { const f = document.querySelector('iframe'), b = f.getBoundingClientRect();"
        " return {src: f.src, width: b.width, height: b.height}; })()"
    )
    return found


def test_the_first_page_shows_the_headline_numbers_and_the_figure(study: Path, browser: Browser) -> None:
    text = browser.text(".overview")
    assert "4 models on 4 splits" in text and "kappa" in text
    cells = browser.run("[...document.querySelectorAll('.overview td')].map(e => e.innerText.split('\\n')[0])")
    assert set(rates(study)) <= {re.split(r"[^\d.]", cell)[0] for cell in cells}
    figure = browser.run(
        "(() => { const i = document.querySelector('.overview .drawing img');"
        " return [i.naturalWidth, i.getBoundingClientRect().width]; })()"
    )
    assert figure[0] > 0 and figure[1] >= 600
    table = browser.run("document.querySelector('.overview table').getBoundingClientRect().top")
    assert 0 < table < 400  # before anything else, and not above the window
    assert browser.run("document.documentElement.scrollWidth <= window.innerWidth")


def test_the_sections_have_the_order_of_a_paper(browser: Browser) -> None:
    sections = browser.run("[...document.querySelectorAll('li span')].map(e => e.innerText)")
    numbered = [name for name in sections if name[:1].isdigit()]
    assert numbered == [
        *("1 Refusal rates", "2 Differences between models", "3 Trade-off", "4 Judges", "5 Methods and accounting")
    ]
    listed = browser.run("[...document.querySelectorAll('.overview .where li li')].map(e => e.innerText)")
    assert listed[:2] == ["1.1 Rates by model and split", "1.2 Rates by model and split (figure)"]
    assert len(listed) == len(set(listed)) >= 18


def test_a_table_is_shown_with_its_notes_and_its_numbers_to_download(study: Path, browser: Browser) -> None:
    pane = page_of(browser, "1 Refusal rates", "1.1 ")
    assert pane["src"].endswith("/refusal.html")
    browser.open(pane["src"], int(pane["width"]), int(pane["height"]))
    text = browser.text("main")
    assert set(rates(study)) <= set(re.findall(r"\d+\.\d", text))
    notes = browser.text(".notes")
    assert "Intervals (95 %)" in notes and "Prompts: " in notes
    assert "</script><script>window.hacked = 1</script>" in text  # read, not run
    downloaded = browser.downloaded("a[download='refusal.csv']")
    assert downloaded.read_bytes() == (study / "results" / STUDY / "tables" / "refusal.csv").read_bytes()


def test_a_figure_fills_its_pane_above_its_caption(study: Path, browser: Browser) -> None:
    pane = page_of(browser, "1 Refusal rates", "1.2 ")
    assert pane["src"].endswith("/refusal_heatmap.html")
    browser.open(pane["src"], int(pane["width"]), int(pane["height"]))
    width = browser.run("document.querySelector('img').getBoundingClientRect().width")
    assert width >= 0.6 * pane["width"]
    caption = (study / "results" / STUDY / "figures" / "refusal_heatmap.caption.md").read_text(encoding="utf-8")
    title = re.match(r"\*\*(.+?)\*\*", caption)
    assert title and title[1] in browser.text("figcaption")
