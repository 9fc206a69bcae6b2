"""The page in a real browser: labelled by keys, kept, exported, read back; and nothing gets out of it."""

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from audit_rows import NASTY, json_rows, take, true_label, write_study
from browser import Browser

from refusal_eval.__main__ import main
from refusal_eval.features.labelling.audit_folder import Audit
from refusal_eval.features.labelling.audit_folder import read_audit as read_folder
from refusal_eval.features.labelling.rater_files import page
from refusal_eval.features.labelling.rater_marks import read_marks

pytestmark = pytest.mark.full

KEY = {"refusal": "r", "partial": "p", "compliance": "c"}


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    opened = Browser(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An audit of 20 texts for two raters; return its folder."""
    take(monkeypatch, write_study(tmp_path))
    assert main(["audit", "draw", "s.yaml", "--size", "20", "--share", "0.5", "--least", "2"]) == 0
    return tmp_path / "results" / "tiny-study" / "audit"


def address(folder: Path, rater: str) -> str:
    return (folder / "raters" / f"{rater}.html").resolve().as_uri()


def begin(browser: Browser, where: str) -> None:
    browser.open(where)
    assert browser.run("document.getElementById('work').hidden") is True
    assert browser.run("scrollY") == 0  # the notice, and not what stands below it
    assert "Before you begin" in browser.text("#notice")
    browser.click("#begin")
    assert "Row 1 of" in browser.text("#work")


def label_all(browser: Browser, found: Audit, rater: str, start: int = 0) -> None:
    for name in found.orders[rater][start:]:
        browser.press(KEY[true_label(found.sample[name]["answer"])])


def test_ten_rows_by_keys_are_kept_exported_and_read_back(browser: Browser, audit: Path, tmp_path: Path) -> None:
    found = read_folder(audit)
    rater = next(iter(found.orders))
    order = found.orders[rater]
    begin(browser, address(audit, rater))
    # Keys do nothing before the notice was read: it was row 1 after it.
    browser.press("r", "p", "c", "u", "s", "1", "2", "3", "c", "c")
    assert "Row 11 of" in browser.text(".place")
    assert browser.text("#counts") == f"8 of {len(order)} labelled · 1 unsure · 1 skipped"
    browser.reload()
    assert browser.run("document.getElementById('notice').hidden") is True
    assert "Row 11 of" in browser.text(".place")
    browser.press("b", "ArrowLeft", "r")  # row 9 again
    browser.press("Backspace")
    assert browser.run("document.querySelector('[aria-pressed=true]').dataset.label") == "refusal"
    browser.press("m", "=", "1", "Enter")  # a comment, and its keys are no labels
    path = browser.downloaded("#export-json")
    marks = {mark.id: mark for mark in read_marks([path], found)}
    expected = ["refusal", "partial", "compliance", "unsure", "skip", "refusal", "partial", "compliance", "refusal"]
    assert [marks[name].label for name in order[:10]] == [*expected, "compliance"]
    assert marks[order[8]].comment == "=1"
    # The same as CSV.
    sheet = browser.downloaded("#export-csv")
    assert [mark[:4] for mark in read_marks([sheet], found)] == [mark[:4] for mark in read_marks([path], found)]
    assert "'=1" in sheet.read_text(encoding="utf-8")
    assert browser.reported == []


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_an_exported_file_goes_on_in_another_browser(browser: Browser, audit: Path, tmp_path: Path, kind: str) -> None:
    found = read_folder(audit)
    rater = next(iter(found.orders))
    begin(browser, address(audit, rater))
    browser.press("c", "r", "u")
    path = browser.downloaded(f"#export-{kind}")
    browser.run("localStorage.clear()")
    browser.reload()
    assert browser.text("#counts") == f"0 of {len(found.orders[rater])} labelled"
    browser.click("#begin")
    browser.choose("#import-file", path)
    browser.run("new Promise(done => setTimeout(done, 300))")
    assert "Imported 3 rows" in browser.text("#message")
    assert browser.text("#counts") == f"2 of {len(found.orders[rater])} labelled · 1 unsure"
    assert "Row 4 of" in browser.text(".place")
    # What belongs to somebody else changes nothing.
    other = tmp_path / f"other.{kind}"
    other.write_text(path.read_text(encoding="utf-8").replace(rater, "rater_9"), encoding="utf-8")
    browser.choose("#import-file", other)
    browser.run("new Promise(done => setTimeout(done, 300))")
    assert "was not imported: it belongs to rater_9" in browser.text("#message")
    assert browser.text("#counts") == f"2 of {len(found.orders[rater])} labelled · 1 unsure"


def test_two_people_label_everything_and_it_becomes_labels_and_gold(browser: Browser, audit: Path) -> None:
    found = read_folder(audit)
    files = []
    for rater in found.orders:
        begin(browser, address(audit, rater))
        label_all(browser, found, rater)
        assert "You are through" in browser.text("#end")
        files.append(browser.downloaded("#end-export"))
    assert main(["audit", "read", "s.yaml", *map(str, files)]) == 0
    labels = json_rows(audit / "labels.jsonl")[1:]
    assert {row["text"] for row in labels} == set(found.sample)
    assert json.loads((audit / "agreement.json").read_text())["people"]["broad"]["agreed"] == 1.0
    assert len(json_rows(audit / "gold.jsonl")) >= 20


def test_a_key_that_is_held_down_labels_one_row(browser: Browser, audit: Path) -> None:
    begin(browser, address(audit, "rater_1"))
    browser.hold("c", 6)
    assert "Row 2 of" in browser.text(".place")


def hostile(folder: Path) -> str:
    rows = [{"id": f"{i:016x}", "messages": [{"role": "user", "content": t}], "answer": t} for i, t in enumerate(NASTY)]
    rows.append({"id": "f" * 16, "messages": rows[0]["messages"], "answer": "word " * 400_000})
    path = folder / "hostile.html"
    path.write_text(page("aud", "rater_1", rows), encoding="utf-8")
    return path.as_uri()


def test_hostile_texts_are_shown_as_they_are_and_do_nothing(browser: Browser, tmp_path: Path) -> None:
    begin(browser, hostile(tmp_path))
    shown = []
    for _ in range(len(NASTY) + 1):
        shown.append(browser.run("document.getElementById('answer').textContent"))
        assert browser.run("document.title") == "Labelling answers"
        assert browser.run("document.querySelectorAll('#answer *').length") == 0
        browser.press("s")
    assert shown[0] == NASTY[0]
    assert shown[7] == "zero[U+0000]byte and [U+001B][31mescape"
    assert len(shown[-1]) == 2_000_000
    assert "You are through" in browser.text("#end")
    assert all(url.startswith(("file:", "data:", "blob:")) for url in browser.requested)
    assert browser.reported == []


def test_nothing_gets_out_of_the_page_even_if_a_script_tried(browser: Browser, audit: Path) -> None:
    sent = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(3)

        def listen() -> None:
            # For a frame Chromium opens a connection in advance; what counts is that nothing comes over it.
            with contextlib.suppress(TimeoutError):
                while True:
                    connection, _ = server.accept()
                    connection.settimeout(1)
                    with contextlib.suppress(TimeoutError), connection:
                        sent.append(connection.recv(100))

        listener = threading.Thread(target=listen)
        listener.start()
        begin(browser, address(audit, "rater_1"))
        where = f"127.0.0.1:{server.getsockname()[1]}"
        tried = browser.run(f"fetch('http://{where}/').then(() => 'sent', () => 'refused')")
        browser.run(f"new Image().src = 'http://{where}/a.png'; navigator.sendBeacon('http://{where}/b', 'x'); 1")
        browser.run(f"try {{ new WebSocket('ws://{where}/') }} catch (error) {{}} 1")
        browser.run(
            "{ const script = document.createElement('script'); script.textContent = 'document.title = \"owned\"';"
            " document.body.append(script); const frame = document.createElement('iframe');"
            f" frame.src = 'http://{where}/c'; document.body.append(frame);"
            f" const link = document.createElement('link'); link.rel = 'stylesheet'; link.href = 'http://{where}/d';"
            " document.head.append(link); 1 }"
        )
        listener.join()
    assert tried == "refused"
    assert sent == []
    assert browser.run("document.title") == "Labelling answers"


@pytest.mark.parametrize("width", [380, 1000])
@pytest.mark.parametrize("dark", [False, True])
def test_text_can_be_read_and_nothing_is_wider_than_the_window(
    browser: Browser, tmp_path: Path, width: int, dark: bool
) -> None:
    where = hostile(tmp_path)
    browser.open(where, width, 760)
    browser.dark(dark)
    contrast = """(() => {
      const light = (c) => { const v = c.match(/[\\d.]+/g).slice(0, 3).map((x) => x / 255)
        .map((x) => (x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
        return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
      const behind = (e) => { for (; e; e = e.parentElement) {
        const c = getComputedStyle(e).backgroundColor; if (c !== "rgba(0, 0, 0, 0)") return c; }
        return "rgb(255,255,255)"; };
      let least = 99;
      for (const e of document.querySelectorAll("p, h1, h2, button, .text, kbd, dt, dd, span, label")) {
        if (!e.offsetParent || !e.innerText) continue;
        const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
        least = Math.min(least, (a + 0.05) / (b + 0.05));
      }
      return [least, document.documentElement.scrollWidth];
    })()"""
    for step in range(3):
        least, wide = browser.run(contrast)
        assert least >= 4.5
        assert wide <= width
        browser.click("#begin") if step == 0 else browser.press("c")


def test_what_was_put_aside_can_be_looked_at_again(browser: Browser, audit: Path) -> None:
    found = read_folder(audit)
    n = len(found.orders["rater_1"])
    begin(browser, address(audit, "rater_1"))
    browser.press("u", "c", "s", *["c"] * (n - 3))
    assert "You are through" in browser.text("#end")
    browser.click("#end-aside")
    assert "Row 1 of" in browser.text(".place")
    browser.press("r")
    assert "Row 3 of" in browser.text(".place")
    browser.press("p")
    assert browser.text("#counts") == f"{n} of {n} labelled"
    # A row that was passed by is reported at the end, and found.
    browser.run("localStorage.clear()")
    browser.reload()
    browser.click("#begin")
    browser.press("ArrowRight", *["c"] * (n - 1))
    assert "1 row is still open" in browser.text("#end")
    browser.click("#end-open")
    assert "Row 1 of" in browser.text(".place")
