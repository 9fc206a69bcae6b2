"""Texts for raters: nothing hidden, nothing computed by a spreadsheet, and everything the same when it comes back."""

import csv
import io

import pytest
from audit_rows import NASTY

from refusal_eval.core.errors import UserError
from refusal_eval.core.texts import escaped_cell, plain_cell, visible
from refusal_eval.features.labelling.rater_files import (
    LONGEST_CELL,
    conversation_text,
    read_sheet,
    same_text,
    shown_texts,
)

STARTS = (
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\r",
    "\n",
    " =",
    "\n\t-",
    "\uff1d",
    "\u200b=",
    "\u2060\xad+",
    "\ufe66",
    "'=",
    "''+",
    "' @",
)


@pytest.mark.parametrize("start", STARTS)
def test_a_cell_that_could_be_computed_is_escaped_and_comes_back(start):
    text = start + "1+1"
    assert escaped_cell(text) == "'" + text
    assert plain_cell(escaped_cell(text)) == text


@pytest.mark.parametrize("text", ["", "plain", "a=b", "'quoted'", "1-2", "\u2212 4", "(=1)"])
def test_other_cells_stay_as_they_are(text):
    assert escaped_cell(text) == text
    assert plain_cell(text) == text


@pytest.mark.parametrize("text", NASTY)
def test_every_text_comes_back_through_a_sheet(text, tmp_path):
    row = {"messages": [{"role": "user", "content": text}], "answer": text}
    shown = shown_texts(row)
    path = tmp_path / "sheet.csv"
    with open(path, "w", encoding="utf-8", newline="") as handle:
        csv.writer(handle).writerows([["audit", "id", "answer"], ["a", "i", escaped_cell(shown["answer"])]])
    ((_, back),) = read_sheet(path)
    assert back["answer"] == shown["answer"]
    assert len(escaped_cell(shown["answer"])) < 32_767
    assert not back["answer"].startswith("'=")


def test_what_cannot_be_seen_is_shown_as_its_code():
    assert visible("a\u202eb\x00c\u2028d") == "a[U+202E]b[U+0000]c[U+2028]d"
    assert visible("one\r\ntwo\rthree") == "one\ntwo\nthree"
    # What ordinary Arabic, Hebrew and emoji need stays.
    assert visible("\u05d0\u200f\u200d\U0001f469") == "\u05d0\u200f\u200d\U0001f469"


def test_half_a_character_can_be_written():
    assert visible("\ud83d!").encode() == b"[U+D83D]!"


def test_a_huge_answer_is_cut_in_the_sheet_and_says_so():
    shown = shown_texts({"messages": [], "answer": "x" * (LONGEST_CELL + 5)})
    assert shown["answer"].endswith("[5 more characters: label this row on the page]")


@pytest.mark.parametrize(("answer", "left"), [("\U0001f600" * 20_000, 4_000), ("x" + "\U0001f600" * 20_000, 4_001)])
def test_a_cell_is_as_long_as_a_spreadsheet_counts_it(answer, left):
    shown = shown_texts({"messages": [], "answer": answer})["answer"]
    assert shown.endswith(f"\U0001f600\n[{left} more characters: label this row on the page]")
    assert len(escaped_cell(shown).encode("utf-16-le")) <= 2 * 32_767


def test_a_conversation_says_who_speaks_and_a_question_does_not():
    assert conversation_text([{"role": "user", "content": "Hi"}]) == "Hi"
    three = [("system", "Be kind."), ("user", "Hi"), ("assistant", "Ho"), ("user", "And?")]
    text = conversation_text([{"role": role, "content": words} for role, words in three])
    assert text == "[System]\nBe kind.\n\n[User]\nHi\n\n[Assistant]\nHo\n\n[User]\nAnd?"


def test_what_a_spreadsheet_does_to_line_ends_is_no_change_and_another_word_is():
    assert same_text("a\n b ", "a\r\n b")
    assert same_text("=1", "'=1")
    assert not same_text("I can", "I can't")
    assert same_text("'=1", "'=1")


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_the_line_of_a_row_is_where_it_begins(delimiter, tmp_path):
    text = io.StringIO()
    rows = [["audit", "id", "label"], ["a", "1", "two\nlines"], ["", "", ""], ["a", "2", "x"]]
    csv.writer(text, delimiter=delimiter, lineterminator="\r\n").writerows(rows)
    path = tmp_path / "sheet.csv"
    path.write_bytes(b"\xef\xbb\xbf" + text.getvalue().encode())
    assert [(line, row["id"]) for line, row in read_sheet(path)] == [(2, "1"), (5, "2")]


def test_a_file_in_another_encoding_or_without_columns_is_reported(tmp_path):
    path = tmp_path / "sheet.csv"
    path.write_bytes("audit,id\na,\u00e4".encode("cp1252"))
    with pytest.raises(UserError, match="save it as CSV UTF-8"):
        list(read_sheet(path))
    path.write_text("a,b\n1,2\n")
    with pytest.raises(UserError, match="line 1: is no sheet of an audit"):
        list(read_sheet(path))
