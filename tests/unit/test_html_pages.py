"""Tables and figures as pages of HTML: the numbers of the other forms, hostile texts as texts, downloads."""

import base64
import re
from html.parser import HTMLParser
from pathlib import Path

from refusal_eval.report.paper.html_page import figure_page, tables_page
from refusal_eval.report.paper.html_table import html_table
from refusal_eval.report.paper.markup import Table

SCRIPT = "</script><script>alert(1)</script>"


class Cells(HTMLParser):
    """The rows of a table as a browser reads them, and all elements of the page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.elements: list[str] = []
        self._inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self._inside = True

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.rows[-1][-1] += data


def rates(columns: int, cell: str = "12.5 [8.1\u201318.0]\u2021") -> Table:
    header = ["Model", *(f"Split {i}\n(refuse, strict)" for i in range(columns))]
    return Table(
        "rates", "Rates.", header, [["one", *[cell] * columns], ["two", *["\u2013"] * columns]], ["\u2021 cut."]
    )


def test_an_interval_has_its_own_column_where_there_is_room() -> None:
    shown = Cells(html_table(rates(2)))
    assert shown.rows[1] == ["one", *["12.5", "[8.1\u201318.0]\u2021"] * 2]
    assert shown.rows[2] == ["two", *["\u2013", ""] * 2]
    assert html_table(rates(2)).count('colspan="2"') == 2  # the heads are above both


def test_in_a_wide_table_it_is_below_its_number_and_the_mark_beside_it() -> None:
    text = html_table(rates(6))
    assert Cells(text).rows[1] == ["one", *["12.5\u2021[8.1\u201318.0]"] * 6]
    assert "colspan" not in text


def test_marks_alone_hang_beside_their_numbers() -> None:
    text = html_table(rates(2, "12.5\u2021"))
    assert Cells(text).rows[1] == ["one", *["12.5\u2021"] * 2] and 'class="marks"' in text


def test_only_the_number_is_bold() -> None:
    table = rates(2)
    bold = Table(table.name, table.caption, table.header, table.rows, bold=frozenset({(0, 1)}))
    assert re.findall(r"<td[^>]*><b>(.*?)</b></td>", html_table(bold)) == ["12.5"]


def test_names_that_repeat_are_there_but_paler_and_a_rule_parts_groups() -> None:
    rows = [["a", "x", "1"], ["a", "y", "2"], ["b", "x", "3"], ["b", "x", "4"]]
    text = html_table(Table("t", "T.", ["Model", "Split", "n"], rows, keys=2))
    assert Cells(text).rows[1:] == rows
    assert [bool(re.search("again", line)) for line in text.splitlines() if "<td" in line] == [False, True, False, True]
    assert text.count('<tr class="group">') == 1


def test_headings_are_lines_above_their_rows() -> None:
    rows = [["first", "x", "1"], ["first", "y", "2"], ["second", "x", "3"]]
    shown = Cells(html_table(Table("t", "T.", ["Family", "Split", "n"], rows, keys=2, headings=1)))
    assert shown.rows == [["Split", "n"], ["first"], ["x", "1"], ["y", "2"], ["second"], ["x", "3"]]


def test_no_text_becomes_markup() -> None:
    table = Table(
        SCRIPT, SCRIPT, ["Model", f"{SCRIPT}\n({SCRIPT})"], [[SCRIPT, f"1.0 [{SCRIPT}]"]], [f"{SCRIPT}\u202e"]
    )
    page = tables_page([table], {f"{SCRIPT}.csv": b"1"})
    assert "script" not in Cells(page).elements
    assert page.count("alert(1)") == 8  # title, caption, head twice, name, cell, note, file
    assert "\u202e" not in page and "[U+202E]" in page


def test_the_other_forms_are_in_the_page() -> None:
    page = tables_page([rates(2)], {"rates.csv": b"a,b\r\n" * 500, "rates.tex": b"% x"})
    found = dict(re.findall(r'<a download="([^"]+)" href="data:[a-z/-]+;base64,([^"]+)"', page))
    assert base64.b64decode(found["rates.csv"]) == b"a,b\r\n" * 500
    assert base64.b64decode(found["rates.tex"]) == b"% x"
    assert max(map(len, page.splitlines())) < 10_000  # docutils, which puts it into the report, takes no longer line


def test_a_figure_is_shown_as_wide_as_the_window_above_its_caption(tmp_path: Path) -> None:
    svg = b'<svg viewBox="0 0 400 200" xmlns="http://www.w3.org/2000/svg"></svg>'
    (tmp_path / "rates.svg").write_bytes(svg)
    (tmp_path / "rates.csv").write_bytes(b"a\n")
    page = figure_page(f"Rates {SCRIPT}.", "Mean & more.", "Further.", tmp_path / "rates")
    assert "--ratio: 2.0000" in page and base64.encodebytes(svg).decode().strip() in page
    assert "</b> Mean &amp; more.</p></figcaption>" in page and "<p>Further.</p>" in page
    assert 'download="rates.csv"' in page and "rates.pdf" not in page
    assert "script" not in Cells(page).elements
