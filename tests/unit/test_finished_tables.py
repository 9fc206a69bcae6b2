"""What a printed table leaves out, how its columns are broken into blocks, and its headings."""

from refusal_eval.report.paper.finished_table import finished
from refusal_eval.report.paper.latex_table import LatexPage, block_sizes, latex
from refusal_eval.report.paper.markup import Table, keep_columns, markdown

CUT = "‡ more than 20 % of the answers are cut off."


def rates(cells: list[list[str]], **more: object) -> Table:
    rows = [[f"m{i}", *row] for i, row in enumerate(cells)]
    return Table("t", "c", ["Model", *(f"s{j}" for j in range(len(cells[0])))], rows, [CUT], **more)  # type: ignore[arg-type]


def test_a_mark_of_every_cell_is_said_once() -> None:
    table = finished(rates([["10.0 [1\u20132]‡*", "20.0‡"], ["30.0‡", "\u2013"]]))
    assert [row[1:] for row in table.rows] == [["10.0 [1\u20132]*", "20.0"], ["30.0", "\u2013"]]
    assert table.notes == ["‡ (in every cell, and so not printed) more than 20 % of the answers are cut off."]


def test_a_mark_of_more_than_four_fifths_of_the_cells_is_said_once_with_the_exceptions() -> None:
    nine = [["10.0‡"] * 3, ["10.0‡"] * 3, ["10.0‡", "10.0‡", "10.0"]]
    table = finished(rates(nine))
    assert not any("‡" in cell for row in table.rows for cell in row)
    assert table.notes[0].startswith("‡ (in every cell but m2, s2, and so not printed) more")
    many = finished(rates([["10.0‡"] * 9, ["10.0‡"] * 9, ["10.0‡"] * 9, ["10.0"] * 4 + ["10.0‡"] * 5]))
    assert many.notes[0].startswith("‡ (in 32 of 36 cells, and so not printed)")


def test_a_mark_of_four_fifths_of_the_cells_or_fewer_stays() -> None:
    table = rates([["10.0‡"] * 4 + ["10.0"]])
    assert finished(table) == table
    # Every cell of one split, and none of the others.
    one = rates([["1.0‡", "2.0"], ["3.0‡", "4.0"]])
    assert finished(one) == one


def test_only_columns_that_can_have_marks_count() -> None:
    rows = [["m0", "s‡", "1", "2"], ["m1", "s‡", "1", "2"]]
    table = Table("t", "c", ["Model", "Split", "a", "b"], rows, [CUT], keys=2, marked=frozenset({1}))
    assert [row[1] for row in finished(table).rows] == ["s", "s"]
    assert finished(keep_columns(table, [1, 2])).rows == [["s", "1"], ["s", "1"]]


def test_a_mark_that_no_note_explains_stays() -> None:
    table = rates([["1.0*", "2.0*"]])
    assert finished(table) == table


def test_columns_of_nothing_but_zeros_or_dashes_are_left_out_and_named() -> None:
    table = finished(rates([["1.0", "0.0", "\u2013", "0"], ["0.0", "0.0", "\u2013", "\u2013"]]))
    assert table.header == ["Model", "s0"] and table.rows == [["m0", "1.0"], ["m1", "0.0"]]
    assert table.notes[-1] == (
        "Columns not shown: s1 (0 in every row), s2 (no value in any row), s3 (0 or no value in every row)."
    )


def test_a_rate_of_0_with_its_interval_says_something_and_a_table_of_zeros_keeps_its_columns() -> None:
    for cells in ([["0.0 [0.0\u20139.0]", "1.0"]], [["0.0", "0.0"]]):
        assert finished(rates(cells)) == rates(cells)


def test_blocks_are_of_like_size_and_cut_no_group_where_they_need_not() -> None:
    def sizes(groups: str, most: int | None = None, room: float = 300.0) -> list[int]:
        return block_sizes([60.0] * len(groups), list(groups), room, most)

    assert sizes("rrrvvvccc", 4) == [3, 3, 3] and sizes("aaaaaaaaa", 4) == [3, 3, 3]
    assert sizes("rrrrccc") == [4, 3] and sizes("rrrvc", 4) == [3, 2] and sizes("rvc", 4) == [3]
    assert sizes("rrrrrrc", 4) == [3, 4], "a group that fits no block is cut once"
    assert sizes("rr", room=10.0) == [1, 1], "a column wider than the page has a block of its own"
    assert sizes("") == []


def test_a_group_stays_in_one_block_of_a_printed_table() -> None:
    table = rates([["90.0 [80.0\u201395.0]"] * 5] * 2, groups=["refuse"] * 2 + ["comply"] * 3, per_block=4)
    blocks = latex(table).split("\\toprule")[1:]
    assert [[f"{{s{j}}}" in block for j in range(5)] for block in blocks] == [
        [True, True, False, False, False], [False, False, True, True, True],
    ]  # fmt: skip


def sectioned(per_split: int, splits: int = 2) -> Table:
    rows = [[f"split {s}", f"m{i}", "1.5 [0.1, 2.0]"] for s in range(splits) for i in range(per_split)]
    return Table("t", "c", ["Split", "Model", "Difference"], rows, keys=2, headings=1)


def test_headings_are_above_the_rows_that_share_them() -> None:
    lines = markdown(sectioned(2)).splitlines()
    assert lines[2:9] == [
        *("| Model | Difference |", "| :-- | --: |", "| **split 0** | |", "| m0 | 1.5 \\[0.1, 2.0\\] |"),
        *("| m1 | 1.5 \\[0.1, 2.0\\] |", "| **split 1** | |", "| m0 | 1.5 \\[0.1, 2.0\\] |"),
    ]
    text = latex(sectioned(2))
    assert text.count("\\multicolumn{3}{@{}l@{}}{\\textit{split 1}}") == 1 and "Split" not in text


def test_a_long_narrow_table_is_set_in_two_halves_that_part_at_a_heading() -> None:
    text = latex(sectioned(20, 4))
    assert "longtable" not in text and text.count("\\toprule") == 2
    first, second = text.split("\\hfill")
    assert ("split 1" in first, "split 2" in first, "split 2" in second) == (True, False, True)
    assert "longtable" in latex(sectioned(60)), "no page holds its halves"


def test_a_table_spans_both_columns_of_a_page_that_has_two_where_it_is_wider_than_one() -> None:
    wide = rates([["90.0 [80.0\u201395.0]"] * 5])
    narrow = rates([["90.0"]])
    two = LatexPage(line=480.0, columns=2, column=230.0)
    assert "\\begin{table*}" in latex(wide, two) and "\\begin{table}" in latex(narrow, two)
    assert "\\begin{table}" in latex(wide, LatexPage(line=340.0, columns=1))
    assert latex(wide, LatexPage(line=340.0, columns=1)).count("\\toprule") == 2 > latex(wide, two).count("\\toprule")
