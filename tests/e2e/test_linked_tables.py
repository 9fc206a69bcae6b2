"""A click on a rate opens the page of answers on its cell, in a real browser; the study's report has no such link."""

import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, executable
from packed_page import unpacked
from project import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

from made_up_study import STUDY, Size, make_study
from rule_jobs import planned, run

from refusal_eval.core.files import read_jsonl

LABELS = ('"><img src=x onerror="window.hacked = 1">', "a, b & c=d/e #1 (x)", "'; window.hacked = 2; //", "caf\u00e9")
SIZE = Size(models=3, splits=2, prompts=24, samples=2, judges=2, labels=LABELS)
READY = """new Promise((done) => {
  const look = () => (document.body && document.body.dataset.ready === 'texts' ? done(1) : setTimeout(look, 20));
  look();
})"""
PICKED = """Object.fromEntries([...document.querySelectorAll('fieldset')].map((set) =>
  [set.querySelector('legend').textContent, [...set.querySelectorAll('input:checked')].map((one) =>
    one.closest('.value').querySelector('.name').textContent)]).filter(([, names]) => names.length))"""

pytestmark = [pytest.mark.full, pytest.mark.feature("browser"), pytest.mark.timeout(15 * 60)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished study with a page of answers."""
    executable()
    folder = tmp_path_factory.mktemp("linked")
    file = make_study(folder, SIZE, processes=2)
    with file.open("a", encoding="utf-8") as study:
        study.write("browser: true\n")
    assert list(run(planned(file, folder, {}), folder, processes=2))
    return folder


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    opened = Browser(tmp_path)
    yield opened
    assert opened.run("window.hacked") is None
    assert opened.reported == []
    opened.close()


def opened(browser: Browser, folder: Path, table: str, selector: str) -> tuple[str, dict[str, list[str]]]:
    """Click a cell of a table; return the address of what opens, and the filters that are chosen there."""
    browser.open((folder / "results" / STUDY / "tables" / f"{table}.html").as_uri(), 1280, 800)
    browser.events.clear()
    browser.click(selector)
    browser._wait(lambda event: event["method"] == "Page.loadEventFired")
    browser.run(READY)
    return browser.run("location.href"), browser.run(PICKED)


def test_a_rate_opens_the_answers_of_its_model_to_its_split(browser: Browser, folder: Path) -> None:
    address, picked = opened(browser, folder, "refusal", "tbody tr:nth-child(2) td:nth-child(4) a")
    assert address == f"{(folder / 'results' / STUDY / 'browser.html').as_uri()}#split=s01&model=m01"
    head = unpacked((folder / "results" / STUDY / "browser.html").read_text("utf-8"))["head"]
    assert picked == {"Split": [head["splits"][1]["label"]], "Model": [head["models"][1]["label"]]}
    own = sum(
        (head["answers"]["model"][a], head["rows"]["split"][row]) == (1, 1)
        for a, row in enumerate(head["answers"]["row"])
    )
    assert own and browser.text("#counts").startswith(f"{own} of {3 * own * 2} answers")
    # The rate that the page shows beside the filters is the one that was clicked.
    rate = re.search(r"rate of the whole cell: ([\d.]+)", browser.text("#counts"))
    table = (folder / "results" / STUDY / "tables" / "refusal.html").read_text("utf-8").replace("<b>", "")
    assert rate and f'#split=s01&amp;model=m01">{rate[1]}<' in table


def test_a_rate_of_a_category_opens_its_prompts_alone(browser: Browser, folder: Path) -> None:
    address, picked = opened(browser, folder, "categories", "td a.answers[href*='%2C']")  # a name with commas
    assert "category=a%2C%20b%20%26" in address and "," in picked["Category"][0]
    assert {legend: len(names) for legend, names in picked.items()} == {"Split": 1, "Model": 1, "Category": 1}
    split = address.split("split=")[1][:3]
    prompts = read_jsonl(folder / "results" / STUDY / "prompts" / f"{split}.jsonl")
    own = sum(row["category"] == picked["Category"][0] for row in prompts)
    assert browser.text("#counts").startswith(f"{2 * own} of ")  # K = 2


def test_a_row_of_another_judge_opens_its_labels(browser: Browser, folder: Path) -> None:
    last = "tbody tr:last-child a.answers[href*='judge=j01']"
    address, _ = opened(browser, folder, "scores", last)
    assert "judge=j01" in address and browser.run("study.judges[chosen.judge].name") == "j01"


def test_the_report_holds_no_answers_and_links_to_none(folder: Path) -> None:
    options = ["--configfile", "study.yaml", "--cores", "1", "--report", "report.zip"]
    made = subprocess.run(
        [sys.executable, "-m", "snakemake", "-s", ROOT / "Snakefile", *options],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0 and "(ERROR" not in made.stderr, made.stderr[-3000:]
    with zipfile.ZipFile(folder / "report.zip") as archive:
        pages = {name: archive.read(name).decode("utf-8") for name in archive.namelist() if name.endswith(".html")}
    assert any(name.endswith("/refusal.html") for name in pages)
    assert not any("browser.html" in text or 'class="answers"' in text for text in pages.values())
