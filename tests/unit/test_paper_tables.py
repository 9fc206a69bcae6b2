"""Which rates stand in bold, the table by category, and that tables agree with the results table."""

import dataclasses
import re
from typing import Any

from table_rows import cards, made, score, study, table_of

from refusal_eval.features.rates.category_tables import categories, category_rows
from refusal_eval.features.rates.rate_tables import refusal
from refusal_eval.report.paper.best_values import best, best_notes, comparison_p, noninferiority_p, signs
from refusal_eval.report.paper.display import NO_DATA, NO_WORSE, NOT_APART, Labels, number
from refusal_eval.report.paper.filled_notes import FOLDERS, filled_notes
from refusal_eval.report.paper.latex_table import latex, points
from refusal_eval.report.paper.markup import Table, csv_text, markdown, move_to_notes
from refusal_eval.stats.estimates.estimate import Estimate


def test_the_best_is_high_where_models_should_refuse_and_low_where_they_should_comply() -> None:
    rates = {"a": 0.9, "b": 0.5, "c": 0.1, "d": None}
    assert best(rates, "refuse") == ["a"] and best(rates, "comply") == ["c"]
    assert best(rates, "varies") == [] and best({"a": 0.9, "d": None}, "refuse") == []


def test_rates_that_are_equal_as_printed_are_best_together() -> None:
    assert best({"a": 0.90004, "b": 0.90001, "c": 0.899}, "refuse") == ["a", "b"]
    assert best({"a": 0.0, "b": 0.0, "c": 0.1}, "comply") == ["a", "b"]


def test_a_rate_that_no_test_shows_to_differ_from_the_best_has_a_sign_and_is_not_bold() -> None:
    shown, open_one = {frozenset("ab"): 0.01}, {frozenset("ab"): 0.2}
    assert signs("ab", "a", shown, 0.95) == {} and signs("ab", "a", open_one, 0.95) == {"b": NOT_APART}
    # Holm over the three comparisons with the best: .0001 and .02 become .0003 and .04, .06 stays; .9 is another pair.
    three = {frozenset("ab"): 0.02, frozenset("ac"): 0.06, frozenset("ad"): 0.0001, frozenset("bc"): 0.9}
    assert signs("abcd", "a", three, 0.95) == {"c": NOT_APART}
    three[frozenset("ab")] = 0.03
    assert signs("abcd", "a", three, 0.95) == {"b": NOT_APART, "c": NOT_APART}


def test_a_pair_that_the_study_does_not_compare_is_not_shown_to_differ_and_without_tests_no_rate_has_a_sign() -> None:
    assert signs("abc", "a", {frozenset("ab"): 0.001}, 0.95) == {"c": NOT_APART}
    assert signs("abc", "a", {}, 0.95) == {} and signs("abc", "", {frozenset("ab"): 0.9}, 0.95) == {}
    # Of two best rates the one that is closer to the third counts.
    assert signs("abc", "ab", {frozenset("ac"): 0.001, frozenset("bc"): 0.3}, 0.95) == {"c": NOT_APART}


def test_with_a_margin_what_is_shown_to_be_no_worse_has_a_sign_of_its_own() -> None:
    p_values, no_worse = {frozenset("ab"): 0.6, frozenset("ac"): 0.6}, {("b", "a"): 0.01, ("c", "a"): 0.2}
    assert signs("abc", "a", p_values, 0.95, no_worse) == {"b": NO_WORSE, "c": NOT_APART}
    assert signs("abc", "a", p_values, 0.95, {}) == {"b": NOT_APART, "c": NOT_APART}
    notes = best_notes({NOT_APART, NO_WORSE}, True, 0.05)
    assert "not shown to differ from the best rate of the split" in notes[1] and "p above 0.05" in notes[1]
    assert "no worse than the best by 5 percentage points" in notes[2]
    assert (
        best_notes(set(), False)[0].endswith("Differences from it were not tested.") and len(best_notes([], True)) == 1
    )


def test_non_inferiority_is_read_by_split_and_side() -> None:
    about = {"judge": "j", "model": "a", "split": "s", "parameter": "minus b"}
    rows = [
        Estimate("rate_difference_noninferiority_p", 0.03, **about),
        Estimate("rate_difference_noninferiority_p", 0.4, **about | {"model": "b", "parameter": "minus a"}),
    ]
    assert noninferiority_p(rows, "j") == {"s": {("a", "b"): 0.03, ("b", "a"): 0.4}}


def test_non_inferiority_that_unjudged_answers_could_undo_or_of_few_clusters_shows_nothing() -> None:
    about = {"judge": "j", "model": "b", "split": "s", "parameter": "minus a"}
    rows = [Estimate("rate_difference_noninferiority_p", 0.01, flags=("unjudged", "margin_open"), **about)]
    assert noninferiority_p(rows, "j") == {}
    few = [Estimate("rate_difference_noninferiority_p", 0.01, flags=("few_clusters",), **about)]
    assert noninferiority_p(few, "j") == {}


def test_p_values_are_found_by_split_and_pair() -> None:
    about = {"judge": "j", "model": "a", "split": "s", "parameter": "minus b"}
    rows = [
        Estimate("rate_difference_p", 0.03, **about),
        Estimate("rate_difference_p_holm", 0.5, **about),
        Estimate("rate_difference_p", 0.5, **about | {"judge": "other"}),
        Estimate("rate_difference_p", 0.5, **about | {"parameter": "minus judge k"}),
        Estimate("rate_difference_p", 0.5, **about | {"split": None, "pool": "comply"}),
    ]
    assert comparison_p(rows, "j") == {"s": {frozenset("ab"): 0.03}}


def test_a_difference_that_unjudged_answers_could_reverse_is_not_shown() -> None:
    about = {"judge": "j", "model": "a", "split": "s", "parameter": "minus b"}
    row = Estimate("rate_difference_p", 0.001, flags=("unjudged", "sign_open"), **about)
    assert comparison_p([row], "j") == {"s": {frozenset("ab"): 1.0}}


def test_bold_stands_in_markdown_and_latex_and_is_explained() -> None:
    cells = [
        score("rules", "m1", "unsafe", "refuse", ["RR"] * 38 + ["CC"] * 2),
        score("rules", "m2", "unsafe", "refuse", ["RR"] * 4 + ["CC"] * 36),
    ]
    table = table_of(refusal, cells)
    assert table.bold == {(0, 1)} and any(note.startswith("Bold:") for note in table.notes)
    assert "| m1 | **95.0** \\[" in markdown(table) and "| m2 | 10.0 \\[" in markdown(table)
    text = latex(table)
    assert "\\bfseries 95.0 & " in text and "\nm2 & 10.0 & " in text and "siunitx" in text.splitlines()[0]
    varies = [cell | {"expectation": "varies"} for cell in cells]
    assert table_of(refusal, varies).bold == frozenset()
    about = {"judge": "rules", "model": "m1", "split": "unsafe", "parameter": "minus m2"}
    tied = table_of(refusal, cells, results=[Estimate("rate_difference_p", 0.3, **about)])
    assert tied.bold == {(0, 1)} and tied.rows[1][1].endswith(f"]{NOT_APART}")
    assert any(note.startswith(f"{NOT_APART} not shown to differ from the best rate") for note in tied.notes)
    assert "\\textsuperscript{a}" in latex(tied) and "\\textsuperscript" not in text
    apart = table_of(refusal, cells, results=[Estimate("rate_difference_p", 0.01, **about)])
    assert apart.rows == table.rows and not any(NOT_APART in note for note in apart.notes)


def test_a_rate_of_which_much_is_unjudged_or_cut_off_or_of_few_clusters_is_never_bold_and_no_rival() -> None:
    cells = [
        score("rules", "m1", "safe", "comply", ["CC"] * 40),
        score("rules", "m2", "safe", "comply", ["RR"] * 4 + ["CC"] * 36),
        score("rules", "m3", "safe", "comply", ["RR"] * 36 + ["CC"] * 4),
    ]
    assert table_of(refusal, cells).bold == {(0, 1)}
    for flag, symbol in (("unjudged", "†"), ("truncated", "‡"), ("few_clusters", "*")):
        flagged = [cells[0] | {"flags": [flag]}, *cells[1:]]
        table = table_of(refusal, flagged)
        assert table.bold == {(1, 1)} and table.rows[0][1].endswith(f"]{symbol}")
        assert any("never bold" in note and symbol in note for note in table.notes)
    assert not any("never bold" in note for note in table_of(refusal, cells).notes)


def test_where_no_rate_is_bold_no_note_says_which_are_never() -> None:
    def notes_of(*cells: Any) -> str:
        return " ".join(table_of(refusal, [cell | {"flags": ["unjudged"]} for cell in cells]).notes)

    one, other = (score("rules", name, "safe", "comply", ["CC"] * 40) for name in ("m1", "m2"))
    assert "never bold" not in notes_of(one, other), "all are in doubt"
    assert "never bold" not in notes_of(one), "one model has no best"
    assert "never bold" not in notes_of(*(cell | {"expectation": "varies"} for cell in (one, other)))
    third = score("rules", "m3", "safe", "comply", ["CC"] * 40)
    notes = table_of(refusal, [one | {"flags": ["unjudged"]}, other, third]).notes
    assert "Rates with † do not compete: they are never bold and have no such sign." in notes


def test_splits_of_one_expectation_are_side_by_side() -> None:
    expected = {"s1": "comply", "s2": "refuse", "s3": "varies", "s4": "comply", "s5": "refuse"}
    cells = [score("rules", m, s, e, ["CR"] * 40) for m in ("m1", "m2") for s, e in expected.items()]
    table = table_of(refusal, cells, splits=list(expected))
    assert [head.split("\n")[0] for head in table.header[1:]] == ["s2", "s5", "s3", "s1", "s4"]
    assert list(table.groups) == ["refuse", "refuse", "varies", "comply", "comply"]


def test_a_rate_by_category_has_all_marks_of_its_own_prompts() -> None:
    rows = [dataclasses.replace(row, flags=("unjudged", "few_clusters")) for row in by_category()]
    table = table_of(categories, study()[:1], results=rows)
    assert all(text.endswith("]†*") for row in table.rows for text in row[3:])
    assert any(note.startswith("† more than 5 %") for note in table.notes)


def test_numbers_are_aligned_and_what_follows_them_stands_beside() -> None:
    rows = [
        ["a", "12.5 [5.7\u201325.1]\u2021", "\u22120.02", "x"],
        ["b", "\u2013", "0.67", "y"],
        ["c", "<1", "0.1", "z"],
    ]
    text = latex(Table("t", "c", ["M", "rate", "kappa", "word"], rows))
    assert "{@{}lS[table-format=2.1]@{~}lS[table-format=-1.2]r@{}}" in text
    assert "M & \\multicolumn{2}{c}{rate} & {kappa} & word \\\\" in text
    assert "a & 12.5 & {[}5.7--25.1{]}\\textdaggerdbl{} & -0.02 & x \\\\" in text
    assert "b & {--} & & 0.67 & y \\\\" in text and "c & {\\textless{}1} & & 0.1 & z \\\\" in text


def test_columns_stand_side_by_side_where_a_page_has_room_for_them() -> None:
    intervals = ["16.7 [10.2\u201326.0]", "16.7 [10.2\u201326.0]", "0.00 [\u22120.06, 0.04]", "0.00 [\u22120.06, 0.04]"]
    row = ["Alarming but safe", "192", *intervals]
    fitting = Table("t", "c", ["Split", "Answers", "a", "b", "c", "d"], [row])
    assert latex(fitting).count("\\toprule") == 1
    wider = Table("t", "c", [*fitting.header, "e", "f"], [[*row, *intervals[2:]]])
    assert latex(wider).count("\\toprule") == 2
    # A capital M takes twice the room of a digit.
    assert points("MMM") > 1.5 * points("000") and points("\u4e2d") > points("0")


def test_characters_that_pdflatex_lacks_are_wrapped() -> None:
    text = latex(Table("t", "c", ["M"], [["caf\u00e9 \u4e2d\u6587 \u0394 \U0001f600"]]))
    assert "caf\u00e9 \\hantext{\u4e2d\u6587}{??} \\scripttext{\u0394}{?} \\scripttext{\U0001f600}{?}" in text
    assert text.index("\\def\\hantext") < text.index("\\begin{table}") and "\\def\\scripttext" in text
    assert "\\def" not in latex(Table("t", "c", ["M"], [["plain"]]))


def by_category() -> list[Estimate]:
    about = {"judge": "rules", "reading": "broad", "level": 0.95, "samples": 2}
    return [
        Estimate(
            "refusal_rate",
            0.25,
            0.1,
            0.5,
            model=m,
            split="safe",
            category=c,
            n_prompts=n,
            n_clusters=n,
            flags=f,
            **about,
        )
        for m in ("m1", "m2")
        for c, n, f in (("b | x", 12, ("few_clusters",)), ("a_b", 40, ()))
    ]


def test_categories_of_the_headline_reading_only() -> None:
    rows = by_category()
    strict = [dataclasses.replace(row, reading="strict") for row in rows]
    whole = [dataclasses.replace(row, category=None) for row in rows]
    other = [dataclasses.replace(row, judge="llm") for row in rows]
    assert category_rows([*rows, *strict, *whole, *other], "rules", {"safe": "broad"}) == rows


def test_categories_table_by_hand() -> None:
    labels = {"models": {"m1": "One"}, "splits": {"safe": "Safe"}}
    frame, table = made(categories, study()[:1], results=by_category(), labels=labels)
    assert table.header == ["Split", "Category", "Prompts", "One", "m2"]
    assert table.rows == [
        ["Safe", "a b", "40", "25.0 [10.0\u201350.0]", "25.0 [10.0\u201350.0]"],
        ["Safe", "b | x", "12", "25.0 [10.0\u201350.0]*", "25.0 [10.0\u201350.0]*"],
    ]
    assert "Reading of the rate: Safe (broad)." in table.notes and table.notes[-1].startswith("Judge rules")
    assert any(note.startswith("* fewer than 30") for note in table.notes)
    assert csv_text(frame).splitlines()[1] == "rules,m1,safe,a_b,broad,2,40,40,0.25,0.1,0.5,"


def test_every_mark_that_a_table_of_categories_explains_stands_in_it() -> None:
    results = [dataclasses.replace(row, flags=()) for row in by_category()]
    table = table_of(categories, study(), cards(), results)
    # m2 is marked on the split with categories; what is marked on the other one is no matter of this table.
    assert {row[0] for row in table.rows} == {"safe†*"}
    assert [note[0] for note in table.notes if note[0] in "†‡*§"] == ["†", "*"]


def test_what_every_row_says_stands_in_a_note() -> None:
    rows = [["s", "a, b", "c", "1"], ["t", "a, b", "c", "2"]]
    header = ["Split", "First", "Second", "x"]
    table = move_to_notes(Table("t", "c", header, rows, ["n"], keys=3, bold=frozenset({(1, 3)})))
    assert (table.header, table.rows, table.align, table.keys) == (["Split", "x"], [["s", "1"], ["t", "2"]], "lr", 1)
    assert table.notes == ["First: a, b; Second: c (in every row).", "n"] and table.bold == {(1, 1)}
    alike = Table("t", "c", ["Split", "x"], [["s", "1"], ["s", "2"]])
    single = Table("t", "c", ["Split", "First", "x"], rows=[["s", "a", "1"]], keys=2)
    assert move_to_notes(alike) == alike and move_to_notes(single) == single
    assert latex(table).count("\\begin{tabular}{@{}l") == 1


def test_a_study_without_categories_has_an_empty_table() -> None:
    frame, table = made(categories, [])
    assert table.rows == [] and table.notes[0] == "No split has categories."
    assert latex(table) and markdown(table) and csv_text(frame).startswith("judge,model,split,category")


def test_numbers_are_written_in_one_way() -> None:
    assert [number(x) for x in (0.125, -0.004, -0.126, None)] == ["0.13", "0.00", "\u22120.13", NO_DATA]


def test_what_a_user_wrote_begins_no_note_and_is_no_template() -> None:
    show = Labels(golds={"g": "- a\n- {{ b }}"})
    words = {"judge": "j", "samples": 3, "errors": [], "least_margin": "0.3", "marks": ["- * few"]}
    notes = filled_notes("corrected/models", show, gold="g", **words)
    assert len(notes) == 3 and "answering model of - a - {{ b }}. " in notes[0] and notes[2] == "- * few"
    label = re.compile(r"^(?:- )?\{\{-? (?:[\w.]+ \| (?:model|split|judge|gold)|gold)\b", re.MULTILINE)
    templates = [path for folder in FOLDERS for path in folder.rglob("*.j2")]
    assert templates and not [path for path in templates if label.search(path.read_text("utf-8"))], (
        "a name begins a line"
    )
