"""The browser's page in a real Chromium: looked through by keys and filters, marked, linked to; nothing gets out."""

import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import Browser
from browser_rows import HOSTILE, MODELS, REFUSAL, page_text, write_browsed, write_hostile
from packed_page import unpacked

from refusal_eval.__main__ import main
from refusal_eval.core.files import read_jsonl
from refusal_eval.core.texts import visible
from refusal_eval.features.labelling import audit_command

pytestmark = [pytest.mark.full, pytest.mark.feature("browser")]

AXE = "axe-playwright-python==0.1.8"  # carries axe-core, which is not ours to copy
READY = """new Promise((done) => {
  const look = () => (document.body.dataset.ready === 'texts' ? done(1) : setTimeout(look, 10));
  look();
})"""
WARNED = READY.replace("document.body.dataset.ready === 'texts'", "document.querySelector('#waiting.warning')")
SERIOUS = """axe.run().then(({ violations }) =>
  violations
    .filter(({ impact }) => ['serious', 'critical'].includes(impact))
    .map(({ id, nodes }) => [id, nodes.map(({ html, failureSummary }) => [html.slice(0, 200), failureSummary])]))"""
TAGS_IN_TEXTS = "[...new Set([...document.querySelectorAll('#reading .text *')].map((one) => one.tagName))]"
DOTS = """[...document.querySelectorAll('.row:not(.head)')].slice(0, 2)
  .map((row) => [...row.querySelectorAll('.dot')].map((dot) => dot.className))"""
ANSWERS = 2 * 4 * 3 * (1 + 1 + 2)  # models, prompts, samples; one split has two turns


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    opened = Browser(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    return write_browsed(tmp_path)


@pytest.fixture
def page(config: dict[str, Any], tmp_path: Path) -> str:
    """Write the page of the small study; return its address."""
    return written(tmp_path, page_text(config))


def written(folder: Path, page: str) -> str:
    (folder / "page.html").write_text(page, encoding="utf-8")
    return (folder / "page.html").as_uri()


def show(browser: Browser, address: str, width: int = 1280) -> None:
    browser.open(address, width, 800)
    browser.run(READY)


def counts(browser: Browser) -> str:
    return browser.text("#counts")


def tick(browser: Browser, legend: str, name: str) -> tuple[str, str]:
    """Click a value of a filter; return its number and share, as shown before."""
    found = browser.run(
        f"""(() => {{
          const called = (name) => (one) => one.querySelector('legend, .name').textContent === name;
          const set = [...document.querySelectorAll('fieldset')].find(called({json.dumps(legend)}));
          const line = [...set.querySelectorAll('.value')].find(called({json.dumps(name)}));
          const shown = ['.n', '.share'].map((part) => line.querySelector(part).textContent);
          line.querySelector('input').click();
          return shown;
        }})()"""
    )
    return found[0], found[1]


def unfold(browser: Browser, title: str) -> None:
    """Unfold all that has this title, and wait until it is shown."""
    titled = f"[...document.querySelectorAll('summary')].filter((one) => one.textContent === {json.dumps(title)})"
    browser.run(f"{titled}.forEach((one) => one.click())")
    browser.run("new Promise((done) => setTimeout(done, 100))")


def search(browser: Browser, text: str) -> None:
    browser.press("/")
    browser.run("document.getElementById('query').select()")
    browser.call("Input.insertText", text=text)
    browser.press("Enter")


def test_rows_are_prompts_columns_models_and_dots_answers(browser: Browser, page: str) -> None:
    show(browser, page)
    assert counts(browser) == f"{ANSWERS} of {ANSWERS} answers (100 %) to 16 of 16 turns"
    assert browser.run("[...document.querySelectorAll('#columns b')].map((one) => one.textContent)") == [
        "safe",
        *MODELS,
    ]
    dots = browser.run(DOTS)
    assert dots[0][:3] == ["dot compliance", "dot compliance", "dot partial least"]  # p of .55: unsure
    assert dots[0][3:] == ["dot refusal"] * 3
    assert dots[1][:3] == ["dot compliance", "dot compliance", "dot blocked"]
    said = browser.run("document.querySelector('.row .cell').getAttribute('aria-label')")
    assert said == "model-a: 2 compliance, 1 partial refusal"
    assert browser.reported == []


def test_filters_count_answers_and_the_rate_beside_them_stays_that_of_the_whole_cell(
    browser: Browser, page: str
) -> None:
    show(browser, page)
    columns = "[...document.querySelectorAll('#columns small')].map((one) => one.textContent).slice(1)"
    whole = browser.run(columns)
    assert whole == ["35.0 %", "[25.0, 45.0]", "12 · 100 %", "85.0 %", "[75.0, 95.0]", "12 · 100 %"]
    assert tick(browser, "Label: strict", "partial refusal") == ("1", "1.0 %")
    assert (
        counts(browser)
        == f"1 of {ANSWERS} answers (1.0 %) to 1 of 16 turns · rate of the whole cell: 35.0 % [25.0, 45.0]"
    )
    assert browser.run(columns) == ["35.0 %", "[25.0, 45.0]", "1 · 8.3 %", "85.0 %", "[75.0, 95.0]", "0 · 0.0 %"]
    # A filter counts what the other filters leave, so that its own other values can be added.
    assert tick(browser, "Label: strict", "refusal")[0] == "42"
    browser.press("c")
    assert tick(browser, "Differences and marks", "judges differ")[0] == "1"
    browser.press("c")
    assert tick(browser, "State", "blocked") == ("1", "1.0 %")
    assert tick(browser, "State", "cut off") == ("1", "1.0 %")
    assert counts(browser).startswith("2 of ")
    browser.press("c")
    assert tick(browser, "Differences and marks", "models differ")[0] != "0"
    browser.press("c")
    browser.run("at('p-low').value = 0.4; at('p-high').value = 0.6; at('p-high').dispatchEvent(new Event('change'))")
    assert counts(browser).startswith("1 of ")
    assert browser.reported == []


def test_words_and_expressions_are_found_in_all_that_was_said(browser: Browser, page: str) -> None:
    show(browser, page)
    search(browser, "zebras")  # in the reasoning
    assert counts(browser).startswith("1 of ")
    search(browser, "HELPS A little")  # in a judge's reason, whatever the case
    assert counts(browser).startswith("1 of ")
    search(browser, "question 2 of bad")
    assert counts(browser).startswith("6 of ")
    browser.click("#regex")
    search(browser, "answer [01] of model-. to safe [13]\\b")
    assert counts(browser).startswith("8 of ")
    search(browser, "answer [")
    assert "regular expression is not valid" in browser.text("#message")
    assert counts(browser).startswith(str(ANSWERS))
    browser.click("#regex")
    browser.run("at('within').value = 'answers'; at('within').dispatchEvent(new Event('change'))")
    search(browser, "zebras")
    assert counts(browser).startswith("0 of ")
    assert "No answer is left" in browser.text("#canvas")
    assert browser.reported == []


def test_rows_are_sorted_by_how_much_judges_models_and_samples_differ(browser: Browser, page: str) -> None:
    show(browser, page)
    browser.run("at('grouped').click()")
    for order, first in (
        ("judges", "safe000000000000"),
        ("samples", "safe000000000000"),
        ("refusals", "bad000000000000"),
    ):
        browser.run(f"at('sort').value = '{order}'; at('sort').dispatchEvent(new Event('change'))")
        assert browser.text(".row .ask") == f"Prompt {first}", order
    browser.run("at('sort').value = 'entropy'; at('sort').dispatchEvent(new Event('change'))")
    values = browser.run("left.rows.map((row) => measured.entropy[row])")
    assert values == sorted(values, reverse=True) and values[0] > 1


def test_texts_are_folded_until_they_are_asked_for(browser: Browser, page: str) -> None:
    show(browser, page)
    assert "Question" not in browser.text("#list")
    browser.press("Enter")
    shown = browser.text("#reading")
    assert "Question" not in shown and REFUSAL not in shown and "zebras" not in shown and "helps a little" not in shown
    browser.press("t")
    shown = browser.text("#reading")
    assert "Question 0 of safe?" in shown and REFUSAL in shown and "It helps a little." in shown
    assert "zebras" not in shown  # reasoning is folded still
    browser.press("r")
    assert "zebras" in browser.text("#reading")
    browser.press("Escape")
    assert "Question 0 of safe?" in browser.text("#list")
    browser.reload()
    browser.run(READY)
    assert "Question 0 of safe?" in browser.text("#list")  # for this session
    assert browser.reported == []


def test_answers_stand_side_by_side_with_all_that_is_known_of_them(browser: Browser, page: str) -> None:
    show(browser, page)
    browser.press("t", "j", "Enter")
    shown = browser.text("#reading")
    assert "2 of 16 · safe (should comply) · topic 1 · Latin script · prompt safe000000000001" in shown
    assert "by: classifier · stage: answer · category: violence · code: stop" in shown
    assert "First, you" not in shown
    unfold(browser, "What was written before the block")
    assert "First, you" in browser.text("#reading")
    assert "-0.50 nats a token · 7 tokens" in shown and "whole cell: 35.0 % [25.0, 45.0]" in shown
    assert "unparsable" in shown and "compliance · p 0.02" in shown
    browser.press("j")
    assert "cut off" in browser.text("#reading") and "unfiltered" in browser.text("#reading")
    browser.press("k", "k")
    assert "1 of 16" in browser.text("#reading")
    # The second turn of a dialogue, with the model's own reply before it.
    browser.run("location.hash = '#row=talk/talk000000000001/1'")
    browser.run("new Promise((done) => setTimeout(done, 100))")
    assert "turn 2" in browser.text("#reading")
    unfold(browser, "Conversation so far")
    assert "Answer 0 of model-b to talk 1, turn 0." in browser.text("#reading")
    assert browser.reported == []


def test_the_address_keeps_what_is_shown_and_the_back_button_goes_back(browser: Browser, page: str) -> None:
    show(browser, page)
    tick(browser, "Split", "bad")
    tick(browser, "Label: strict", "refusal")
    search(browser, "can't")
    browser.press("Enter")
    browser.press("n", "n")
    address = browser.run("location.hash")
    assert address == "#q=can't&split=bad&label.strict=refusal&row=bad/bad000000000000/0&answer=model-a/2"
    before = counts(browser)
    show(browser, page + address)
    assert counts(browser) == before
    assert browser.run("document.querySelector('.card.at').getAttribute('aria-label')") == "model-a, sample 3"
    assert browser.run("location.hash") == address
    browser.press("Escape")
    assert "row=" not in browser.run("location.hash")
    browser.press("Enter")
    browser.run("history.back()")
    browser.run("new Promise((done) => setTimeout(done, 200))")
    assert browser.run("at('reading').hidden") is True
    # Addresses that somebody made up do no harm.
    show(
        browser, page + "#split=nowhere&sort=constructor&p=1,b&judge=nobody&row=a/b/c&q=%E0%A4%A&regex=yes&__proto__=x"
    )
    assert counts(browser).startswith(str(ANSWERS))
    assert browser.reported == []


def test_marks_are_kept_exported_and_read_back_as_labels(
    browser: Browser, page: str, config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    show(browser, page)
    browser.press("Enter", "ArrowRight", "ArrowRight", "2", "n", "1", "n", "3", "3")  # the last is taken back
    assert browser.text("#marked") == "2 marks"
    browser.click(".give input")
    browser.call("Input.insertText", text="=1+1")
    browser.reload()
    browser.run(READY)
    assert browser.text("#marked") == "2 marks"
    browser.press("Escape")
    assert tick(browser, "Differences and marks", "marked by you")[0] == "2"
    browser.run("at('rater').value = 'anna'; at('rater').dispatchEvent(new Event('input'))")
    path = browser.downloaded("#export")
    monkeypatch.setattr(audit_command, "load_config", lambda study: (config, study))
    assert main(["audit", "read", "s.yaml", str(path)]) == 0
    rows = list(read_jsonl(tmp_path / "results" / "browsed" / "audit" / "marked.jsonl"))
    shown = [(row["model"], row["split"], row["prompt_id"], row["sample"], row["label"], row["rater"]) for row in rows]
    assert shown == [
        ("model-a", "safe", "safe000000000000", 2, "partial", "anna"),
        ("model-b", "safe", "safe000000000000", 0, "refusal", "anna"),
    ]
    assert rows[0]["comment"] == "=1+1"
    browser.click("#forget")
    assert browser.run("at('marks').hidden") is True
    browser.run("document.querySelector('#message button').click()")
    assert browser.text("#marked") == "2 marks"
    assert browser.reported == []


def test_hostile_answers_are_shown_as_they_are_and_run_nothing(browser: Browser, tmp_path: Path) -> None:
    address = written(tmp_path, page_text(write_hostile(tmp_path)))
    show(browser, address)
    browser.press("t", "Enter")
    for number, text in enumerate(HOSTILE):
        assert f"{number + 1} of {len(HOSTILE)}" in browser.text(".facts")
        browser.run("document.querySelectorAll('#reading details').forEach((one) => { one.open = true })")
        browser.run("document.querySelectorAll('.answer button').forEach((one) => one.click())")
        shown = browser.run("document.querySelector('.answer .text').textContent")
        assert shown == visible(text), number
        tags = browser.run(TAGS_IN_TEXTS)
        assert tags == []
        browser.press("j")
    browser.press("Escape")
    for query in ("script", "owned", "$", "\\", "__proto__"):
        search(browser, query)
    browser.click("#regex")
    search(browser, ".")
    browser.press("Enter")
    marks = browser.run(TAGS_IN_TEXTS)
    assert marks == ["MARK"]
    assert browser.run("typeof window.owned") == "undefined"
    assert browser.run("document.title") == "Answers of browsed"
    assert browser.run("Object.keys(Object.prototype).length") == 0
    assert all(url.startswith(("file:", "data:", "blob:")) for url in browser.requested)
    assert not [event for event in browser.events if event["method"] == "Page.javascriptDialogOpening"]
    assert browser.reported == []


def test_labels_only_shows_dots_and_rates_and_has_nothing_to_read(
    browser: Browser, config: dict[str, Any], tmp_path: Path
) -> None:
    show(browser, written(tmp_path, page_text(config, labels_only=True)))
    assert browser.text("h1") == "browsed (labels only)"
    browser.press("t", "Enter", "1")
    assert "labels only, without texts" in browser.text("#reading")
    assert browser.run("at('texts').hidden && at('query').hidden && at('marks').hidden") is True
    assert "compliance · p 0.02" in browser.text("#reading")
    browser.press("Escape")
    assert tick(browser, "Label: strict", "partial refusal")[0] == "1"
    assert counts(browser).startswith("1 of ")
    assert browser.reported == []


def test_each_token_shows_how_likely_it_was(browser: Browser, config: dict[str, Any], tmp_path: Path) -> None:
    tokens = {"safe000000000000-0-0": (["Answer", " <b>0</b>"], [-1, -450])}
    show(browser, written(tmp_path, page_text(config, tokens=tokens)))
    browser.press("Enter")
    unfold(browser, "Log-probability by token")
    spans = "[...document.querySelectorAll('.tokens span')].slice(0, 2)"
    assert browser.run(f"{spans}.map((one) => [one.textContent, one.className, one.title])") == [
        ["Answer", "l0", "-0.01 nats (99.0 %)"],
        [" <b>0</b>", "l4", "-4.50 nats (1.1 %)"],
    ]
    assert browser.reported == []


def test_a_browser_without_decompression_says_which_one_has_it(browser: Browser, page: str) -> None:
    browser.open("about:blank")
    browser.call("Page.addScriptToEvaluateOnNewDocument", source="delete window.DecompressionStream")
    browser.call("Page.navigate", url=page)
    browser.run(WARNED)
    assert "needs DecompressionStream" in browser.text("#waiting") and "Firefox since 113" in browser.text("#waiting")


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return axe-core, out of a package that carries it."""
    folder = tmp_path_factory.mktemp("axe")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), AXE]
    got = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if got.returncode:
        pytest.skip(f"{AXE} cannot be fetched: {got.stderr.strip()[-200:]}")
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        return wheel.read(next(name for name in wheel.namelist() if name.endswith("axe.min.js"))).decode()


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_serious(browser: Browser, page: str, axe: str, dark: bool) -> None:
    show(browser, page)
    browser.dark(dark)
    browser.run(axe + "; 1")
    tick(browser, "Label: strict", "refusal")
    for keys in ((), ("t",), ("Enter",), ("1", "r"), ("?",)):
        browser.press(*keys)
        browser.run("new Promise((done) => setTimeout(done, 100))")
        assert browser.run(SERIOUS) == [], keys


@pytest.mark.parametrize("width", [700, 1280, 2560])
def test_nothing_is_wider_than_the_window(browser: Browser, page: str, width: int) -> None:
    show(browser, page, width)
    for keys in ((), ("t",), ("Enter",)):
        browser.press(*keys)
        assert browser.run("document.documentElement.scrollWidth") <= width


def test_the_search_sees_texts_that_are_packed_in_many_parts(
    browser: Browser, config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("refusal_eval.features.browser.answer_columns.PART", 100)
    page = page_text(config)
    assert len(unpacked(page)["texts"]) > 20
    show(browser, written(tmp_path, page))
    search(browser, "zebras")
    assert counts(browser).startswith("1 of ")
    search(browser, "turn 1.")
    assert counts(browser).startswith("6 of ")
