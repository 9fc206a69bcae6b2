"""Tables: what they say, that their bytes do not depend on order, and that no label can become a command."""

import csv
import io
import random
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from table_rows import cards, data_of, frame_of, score, study, table_of, talks

from refusal_eval.core.errors import UserError
from refusal_eval.features.judge_cards.judge_cards_table import judge_cards, judges, judges_frame, judges_table
from refusal_eval.features.rates.rate_tables import answers, rates_frame, refusal, scores, states, votes
from refusal_eval.report.paper.display import (
    EN_DASH,
    Labels,
    annotators,
    clean,
    flags_in,
    interval,
    join_texts,
    marks_of,
    notes_of,
    order_names,
    p_text,
    percent,
    points,
    points_interval,
    wrap_text,
)
from refusal_eval.report.paper.latex_table import latex, latex_escaped
from refusal_eval.report.paper.markup import Table, csv_text, markdown, markdown_escaped
from refusal_eval.report.paper.table_data import TableData
from refusal_eval.report.paper.table_notes import agreement_note, judges_notes
from refusal_eval.tools.bench.bench_page import Benchmark, frame, page

HOSTILE = r"\input{/etc/passwd}"


def test_percent_and_interval() -> None:
    assert [percent(x) for x in (0.0, 0.1234, 1.0, None)] == ["0.0", "12.3", "100.0", EN_DASH]
    assert [percent(x, 0) for x in (0.0, 0.004, 0.123, 0.996, 1.0)] == ["0", "<1", "12", ">99", "100"]
    assert interval(0.081, 0.18) == f"[8.1{EN_DASH}18.0]" and interval(None, 0.5) == ""


def test_ties_are_rounded_up_as_written_whatever_binary_numbers_make_of_them() -> None:
    assert [percent(k / 8, 0) for k in (1, 3, 5, 7)] == ["13", "38", "63", "88"]
    assert [percent(k / 16) for k in (1, 3, 5, 15)] == ["6.3", "18.8", "31.3", "93.8"]
    # 100 times these is a little less, or a little more, than the tie.
    assert [percent(x, 0) for x in (0.145, 0.285, 0.575, 0.555)] == ["15", "29", "58", "56"]
    assert [percent(k / 2000) for k in range(1, 2000, 2)] == [f"{(k + 1) / 20:.1f}" for k in range(1, 2000, 2)]
    assert 0.7 + 0.1 - 0.675 < 0.125 and percent(0.7 + 0.1 - 0.675, 0) == "13"
    assert percent(0.12499, 0) == "12" and percent(np.float64(0.125), 0) == "13"


def test_differences_in_points_have_a_minus_and_no_plus_and_ties_go_away_from_zero() -> None:
    assert [points(x) for x in (0.031, -0.031, 0.0, -0.0004, 0.0625, -0.0625, None)] == [
        *("3.1", "\u22123.1", "0.0", "0.0", "6.3", "\u22126.3", EN_DASH)
    ]
    assert points_interval(-0.012, 0.034) == "[\u22121.2, 3.4]" and points_interval(None, 0.1) == ""
    assert [p_text(p) for p in (None, 0.0004, 0.0625, 1.0)] == [EN_DASH, "<0.001", "0.063", "1.000"]


def test_wrapped_breaks_where_readers_expect() -> None:
    assert wrap_text("short", 10) == ["short"]
    assert wrap_text("XSTest (safe prompts)", 13) == ["XSTest (safe", "prompts)"]
    assert wrap_text("meta-llama/Llama-3.1-8B", 12) == ["meta-llama/", "Llama-3.1-8B"]
    assert wrap_text("abcdefghij", 4) == ["abcd", "efgh", "ij"]
    assert wrap_text("", 4) == [""]
    rng = random.Random(1)
    for _ in range(500):
        text = clean("".join(rng.choice("abc -/_.") for _ in range(rng.randrange(30))))
        width = rng.randrange(1, 12)
        lines = wrap_text(text, width)
        assert all(len(line) <= width for line in lines)
        assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_order_of_names() -> None:
    assert order_names({"b", "a", "c"}, None) == ["a", "b", "c"]
    assert order_names(["b", "a", "c", "a"], ["c", "gone", "c"]) == ["c", "a", "b"]


def test_lists_of_names_with_commas_have_semicolons() -> None:
    assert (
        join_texts(["a", "b"]) == "a, b" and join_texts(["a", "b, told to decline", "c"]) == "a; b, told to decline; c"
    )
    assert [annotators(n) for n in (None, 1, "1", 3)] == ["", "one annotator", "one annotator", "3 annotators"]
    assert annotators(1, {"broad": 0.8}) == "one annotator, some also by another"


def test_votes_explain_no_rates_and_every_mark_is_there() -> None:
    table = table_of(votes, study(), cards())
    notes = " ".join(table.notes)
    assert "Clopper" not in notes and "Mean over" not in notes and "Readings: strict" in notes
    shown = {symbol for row in table.rows for symbol in row[2] if symbol in "†‡*§"}
    assert shown == {note[0] for note in table.notes if note[0] in "†‡*§"} == set("†‡*§")


def test_properties_of_answers_have_marks_of_their_own_and_the_note_names_both_kinds_of_interval() -> None:
    # Blocked answers count in the rate, but have no text: 40 clusters have a rate, and 20 a log-probability.
    blocked = score("rules", "m1", "s", "refuse", ["CC"] * 20 + ["BB"] * 20)
    few = score("rules", "m2", "s", "refuse", ["CR"] * 40) | {"flags": ["few_clusters"]}
    table = table_of(answers, [blocked, few])
    (one, two), columns = table.rows, {name: i for i, name in enumerate(table.header)}
    assert [cells[columns["Refusal rate"]].endswith("*") for cells in (one, two)] == [False, True]
    assert [cells[columns["Log-probability"]].endswith("*") for cells in (one, two)] == [True, False]
    assert [cells[columns["Cut"]] for cells in (one, two)] == ["0.0", "0.0"]
    notes = " ".join(table_of(answers, [blocked]).notes)
    assert "* fewer than 30 independent clusters" in notes and notes.count("Intervals (95 %): Wilson") == 1
    assert "at 0 and 1; of log-probability and tokens Student's t, cluster-robust." in notes
    assert "Student" not in " ".join(table_of(scores, [few]).notes)


def test_no_table_has_a_hyphen_for_a_minus() -> None:
    for note in table_of(votes, study(), cards()).notes:
        assert not re.search(r"(?<![\w-])-\d", note), note


def test_marks_and_their_notes() -> None:
    cells = study()
    assert [marks_of([cell]) for cell in cells] == ["", "", "†*", "‡§", ""]
    assert marks_of(cells[1:3]) == "†*" and marks_of(cells[:2]) == ""
    assert [note[0] for note in notes_of(flags_in(cells))] == ["†", "‡", "*", "§"]
    assert notes_of(flags_in(cells[:2])) == []


def test_in_the_table_of_all_rates_each_reading_has_the_marks_of_its_own_rate() -> None:
    # Broad 1.0 [.981, 1], and .955 if the nine answers without a verdict complied; strict .524 [.453, .594]
    table = table_of(scores, [score("rules", "m1", "unsafe", "refuse", ["R"] * 100 + ["P"] * 91 + ["F"] * 9)])
    (row,) = (dict(zip(table.header, row, strict=True)) for row in table.rows)
    assert (row["Strict"], row["Broad"]) == ("52.4", "100.0†") and row["Refusal rate"].endswith("]")
    assert [note[0] for note in table.notes if note[0] in "†‡*§"] == ["†"]


def test_the_table_of_all_rates_has_the_share_of_prompts_with_c_above_0_with_its_interval() -> None:
    one = score("rules", "m1", "unsafe", "refuse", ["R"] * 30 + ["P"] * 30 + ["C"] * 60)
    data = data_of(scores=[one])
    frame, (table,) = scores(data)
    (row,) = (dict(zip(table.header, row, strict=True)) for row in table.rows)
    (line,) = frame.to_dict("records")
    assert row["c(x) > 0"] == row["Refusal rate"].replace(row["Strict"], "25.0") == f"25.0 [18.0{EN_DASH}33.6]"
    assert (line["c_positive"], line["c_positive_low"]) == (0.25, pytest.approx(line["strict_low"]))
    assert any(note.startswith("c(x) > 0: prompts whose") for note in table.notes)


def test_a_rate_of_one_prompt_is_never_bold_and_the_note_says_of_which_rates_the_best_is_bold() -> None:
    cells = [score("rules", m, "unsafe", "refuse", ["R"] * n) for m, n in (("m1", 1), ("m2", 1))]
    assert not table_of(refusal, cells, splits=["unsafe"]).bold
    votes = {"m1": ["R"] * 60 + ["F"] * 40, "m2": ["R"] * 90 + ["C"] * 10, "m3": ["R"] * 10 + ["C"] * 90}
    cells = [score("rules", name, "unsafe", "refuse", own) for name, own in votes.items()]
    table = table_of(refusal, cells, splits=["unsafe"])
    assert table.bold == {(1, 1)}
    assert "Rates with † do not compete: they are never bold and have no such sign." in table.notes


def test_paper_table_by_hand() -> None:
    table = table_of(refusal, study(), cards(), splits=["unsafe", "safe"])
    assert table.header == ["Model", "unsafe\n(refuse, strict)", "safe\n(comply, broad)"]
    assert [row[0] for row in table.rows] == ["m1", "m2"]
    (unsafe, safe), (unsafe2, safe2) = table.rows[0][1:], table.rows[1][1:]
    assert unsafe.startswith("75.0 [") and safe.startswith("5.0 [")
    # Of TR and BC, every first and the second of 30 refuse: (30 * 1 + 10 * 0.5) / 40.
    assert unsafe2.startswith("87.5 [") and unsafe2.endswith("]‡§")
    # 1 - 0.025^(1/8) = 0.369417 for no refusal on the eight prompts that were judged.
    assert safe2 == f"0.0 [0.0{EN_DASH}36.9]†*"
    notes = " ".join(table.notes)
    assert "unsafe (40); safe (40, at least 8 scored)." in notes and "K = 2" in notes and "95 %" in notes
    # People: 25 refusals of 50, the judge finds 20: accuracy 45 / 50; chance 0.5, kappa (0.9 - 0.5) / 0.5.
    assert "on pyrit (50 answers): kappa 0.80 strict, 0.80 broad; more in the judge cards." in notes
    (reported,) = {*rates_frame(study()[:1], cards())["agreement_with_people"]}
    every = "accuracy 90.0 %, sensitivity 80.0 % (n = 25), specificity 100.0 % (n = 25), kappa 0.80"
    assert reported == f"pyrit (50 answers): {every} (strict and broad)"
    assert "not measured" not in notes and "blocked count as refusals" in notes


def test_tables_with_dialogues_say_what_was_counted() -> None:
    cells = [talks(), score("rules", "m1", "safe", "comply", ["C"] * 40)]
    paper = " ".join(table_of(refusal, cells).notes)
    assert "Prompts: talks (2, 4 turns, at least 2 scored); safe (40)." in paper
    assert "Mean over prompts (scored turns in dialogues) of the share of refusals" in paper
    assert "Scored in dialogues: talks all turns." in paper
    main = table_of(scores, cells)
    assert [row[main.header.index("Prompts")] for row in main.rows] == ["40", "1 of 2; 2 of 4 turns"]
    assert "A turn that is not reached" in " ".join(table_of(states, cells).notes)
    assert "Shares of prompts (scored turns in dialogues) in percent" in " ".join(table_of(votes, cells).notes)
    # A turn of a, the second, refuses: 1 of the 2 that count, 1 of 4 at least and 3 of 4 at most.
    frame = rates_frame(cells).set_index("split").loc["talks"]
    counts = ("n_prompts", "n_scored_prompts", "n_turns", "n_scored_turns", "n_answers")
    assert [frame[key] for key in counts] == [2, 1, 4, 2, 4] and frame["scored"] == "all"
    assert [frame[f"strict_{key}"] for key in ("rate", "bound_low", "bound_high")] == [0.5, 0.25, 0.75]
    counted = frame_of(votes, cells).set_index(["split", "measure"]).loc["talks"]
    assert counted[["n_prompts", "n_turns"]].drop_duplicates().values.tolist() == [[1, 2]]


def test_one_scored_turn_for_each_dialogue_is_reported_too() -> None:
    notes = " ".join(table_of(refusal, [talks("last")]).notes)
    assert "Prompts: talks (2, at least 1 scored)." in notes and "Mean over prompts of the share" in notes
    assert "Scored in dialogues: talks the last turn of each." in notes


def test_without_dialogues_tables_speak_of_prompts_only() -> None:
    tables = [table_of(refusal, study(), cards()), table_of(scores, study(), cards()), table_of(states, study())]
    for table in [*tables, table_of(votes, study(), cards())]:
        assert "turn" not in markdown(table) and "dialogue" not in markdown(table)


def test_a_judge_without_gold_says_so() -> None:
    table = table_of(refusal, study(), cards(), primary_judge="llm")
    assert "Judge llm, agreement with people: not measured." in table.notes
    frame = rates_frame(study(), cards())
    assert frame.loc[frame["judge"] == "llm", "agreement_with_people"].tolist() == [
        "agreement with people: not measured"
    ]


def test_missing_cells_are_shown_as_missing() -> None:
    table = table_of(refusal, study()[1:4])
    assert table.rows[0][2] == EN_DASH and f"{EN_DASH} no score." in table.notes


def test_a_table_with_rows_of_different_lengths_is_refused() -> None:
    with pytest.raises(ValueError, match="different lengths"):
        Table("t", "c", ["a", "b"], [["1"]])


def test_csv_bytes_do_not_depend_on_order() -> None:
    rng, texts = random.Random(5), set()
    cells, notes = study(), cards()
    for _ in range(10):
        rng.shuffle(cells)
        frames = (rates_frame(cells, notes), frame_of(states, cells), frame_of(votes, cells), judges_frame(notes))
        texts.add("".join(csv_text(frame) for frame in frames))
    assert len(texts) == 1


def test_csv_values() -> None:
    lines = csv_text(rates_frame(study(), cards())).splitlines()
    header = lines[0].split(",")
    row = dict(zip(header, lines[2].split(","), strict=False))
    assert [row[key] for key in ("judge", "model", "split", "headline", "samples", "n_prompts")] == [
        "rules", "m1", "safe", "broad", "2", "40",
    ]  # fmt: skip
    assert (row["rate"], row["strict_rate"], row["unjudged"], row["mixed_serving"]) == ("0.05", "0", "0", "false")
    assert len(lines) == 6 and [line.split(",")[0] for line in lines[1:]] == ["llm", *["rules"] * 4]
    empty = score("rules", "m", "s", "varies", ["FF"])
    values = csv_text(rates_frame([empty])).splitlines()[1].split(",")
    assert dict(zip(header, values, strict=False))["rate"] == ""


def test_no_p_value_is_written_as_0() -> None:
    tiny = {"p": 1e-55, "p_holm": 3.4567891e-7, "mcnemar_p": 0.0004, "noninferior_first_p": 0.25, "p_refusal": 1.0}
    frame = pd.DataFrame([tiny | {"bound_low": -4e-19, "q_by": None}], dtype=object)
    (line,) = csv.DictReader(io.StringIO(csv_text(frame)))
    assert [line[key] for key in tiny] == ["1e-55", "3.45679e-07", "0.0004", "0.25", "1"]
    assert (line["bound_low"], line["q_by"]) == ("0", "")


def test_states_and_votes() -> None:
    found = frame_of(states, study()).set_index(["judge", "model", "split"])
    assert found.loc[("rules", "m2", "safe"), "failed"] == 0.2
    assert found.loc[("rules", "m2", "unsafe"), "truncated"] == 30 / 80
    measured = frame_of(votes, study()).set_index(["judge", "model", "split", "measure"])["value"]
    assert measured["rules", "m1", "safe", "majority@2 tie broad"] == 0.1
    assert measured["rules", "m1", "safe", "any@2 broad"] == 0.1
    assert measured["rules", "m1", "unsafe", "c@2 mean"] == 0.75
    assert all("@2" in name for name in measured.index.get_level_values("measure"))


def test_cells_say_which_answers_their_numbers_are_of() -> None:
    table = table_of(states, study())
    truncated, row = table.header.index("Truncated"), [row[:2] for row in table.rows].index(["m2", "unsafe"])
    assert table.rows[row][truncated] == "37.5"
    assert table.about[row, truncated] | {"judge": ""} == {
        "model": "m2", "split": "unsafe", "judge": "", "state": "truncated",
    }  # fmt: skip
    assert all(table.rows[i][j] not in ("0", "0.0") for i, j in table.about)  # whose answers there are not
    table = table_of(refusal, [score for score in study() if score["judge"] == "rules"])
    assert {table.rows[i][0]: cell["split"] for (i, j), cell in table.about.items() if j == 1} == dict.fromkeys(
        ("m1", "m2"), "unsafe"
    )
    assert table.header[1].startswith("unsafe") and table.about[1, 2] == {"model": "m2", "split": "safe"}


def test_cells_whose_prompts_have_no_c_are_counted_below_the_votes() -> None:
    whole = score("rules", "m1", "s", "refuse", ["CR"] * 40)
    assert "no log-probability" not in " ".join(table_of(votes, [whole]).notes)
    some, none = (whole | {"model": f"m{n}", "c": whole["c"] | {"n": n}} for n in (39, 0))
    notes = " ".join(table_of(votes, [whole, some, none]).notes)
    assert "c rests on fewer prompts than the rate in 2 of 3 cells, in 1 of them on none." in notes


def test_votes_of_different_k_stand_in_different_columns() -> None:
    table = table_of(votes, [*study(), score("rules", "m3", "safe", "comply", ["C"] * 40)])
    assert sum("majority@1" in cell for cell in table.header) == sum("majority@2" in cell for cell in table.header) == 2
    filled = [[cell != EN_DASH for cell in row[3:]] for row in table.rows]
    assert all(row in ([True] * 7 + [False] * 7, [False] * 7 + [True] * 7) for row in filled)


def test_judges_table_lists_unmeasured_judges() -> None:
    table = judges_table(data_of({"judges": ["llm", "rules"]}, cards()))
    assert [row[:3] for row in table.rows] == [
        ["llm", "not measured", EN_DASH], ["rules", "pyrit", "strict"], ["rules", "pyrit", "broad"],
    ]  # fmt: skip
    assert table.rows[1][5] == "0.80" and table.rows[1][6].endswith("(n = 25)")
    notes = " ".join(table.notes)
    assert "labelled by one annotator (pyrit)" in notes and EN_DASH not in notes


def test_judges_table_names_the_level_of_its_intervals() -> None:
    wide = [{**card, "level": 0.9} for card in cards()]
    assert "with 90 % intervals" in judges_table(data_of(cards=wide)).notes[0]
    assert "with 95 % intervals" in judges_table(data_of(cards=cards())).notes[0]
    assert "interval" not in judges_table(data_of({"judges": ["llm"]}, [])).notes[0]


def test_a_single_judge_stands_in_the_notes() -> None:
    cells = [cell for cell in study() if cell["judge"] == "rules"]
    for table in (table_of(scores, cells), table_of(states, cells), table_of(votes, cells)):
        assert table.header[:2] == ["Model", "Split"] and any("udge rules" in note for note in table.notes)
        assert len(table.align) == len(table.header)
    assert table_of(scores, study()).header[:3] == ["Judge", "Model", "Split"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HOSTILE, r"\textbackslash{}input\{/etc/passwd\}"),
        ("a & b % $c #d e_f {g} ~h ^i", r"a \& b \% \$c \#d e\_f \{g\} \textasciitilde{}h \textasciicircum{}i"),
        ("[x]*", "{[}x{]}{*}"),
        ("a--b---c ``d'' ?`", "a-{}-b-{}-{}-c `{}`d'{}' ?{}`"),
        (f"1{EN_DASH}2 † ‡ §", r"1--2 \textdagger{} \textdaggerdbl{} \S{}"),
        ("two\nlines\x00\x1b\u202e", "two lines   "),
        ("<|end|>\"", r"\textless{}\textbar{}end\textbar{}\textgreater{}\symbol{34}"),
    ],
)  # fmt: skip
def test_latex_escaping(text: str, expected: str) -> None:
    assert latex_escaped(text) == expected


def test_no_character_survives_as_a_command() -> None:
    ours = r"\\(textbackslash|textasciitilde|textasciicircum|textless|textgreater|textbar|symbol|[&%$#_{}])"
    rng = random.Random(8)
    for _ in range(500):
        text = "".join(rng.choice("\\{}$&#^_~%[]*`'-\"<>|ab1\n\t ") for _ in range(20))
        bare = re.sub(ours, "", latex_escaped(text))
        assert not re.search(r"[\\$&#^_~%\n\t]", bare), text
        assert bare.count("{") == bare.count("}"), text


def test_hostile_labels_in_every_table() -> None:
    labels = {
        "models": {"m1": HOSTILE, "m2": "a | b\n% `rm` <b>"}, "splits": {"safe": "\\end{table}"},
        "judges": {"rules": "$x$"}, "golds": {"pyrit": "\\write18{ls}"},
    }  # fmt: skip
    tables = [table_of(kind, study(), cards(), labels=labels) for kind in (refusal, scores, states, votes, judges)]
    for table in tables:
        text = latex(table)
        assert not re.search(r"\\(input|write)", text) and text.count(r"\end{table") == 1
        assert text.count(r"\begin{") == text.count(r"\end{") and r"\toprule" in text
        rows = [line for line in markdown(table).splitlines() if line.startswith("|")]
        # A bar in a label is escaped, so that each row has as many cells as the header.
        assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {len(table.header) + 1}
        assert "<b>" not in markdown(table)


def test_markdown_escaping() -> None:
    assert markdown_escaped("a|b*_`<i>\n[x]") == r"a\|b\*\_\`&lt;i&gt;<br>\[x\]"


ADDRESSES = [
    "https://a.example/b",
    "HTTP://a.example",
    "www.a.example",
    "mailto:b@a.example",
    "see b.c@a.example now",
    "b+-@a.example",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_address_in_markdown_becomes_a_link(address: str) -> None:
    shown = markdown_escaped(address)
    assert not re.search(r"(?i)(https?|ftp)://|www\.|[\w.+-]\\?@[\w-]+\.", shown)
    assert re.sub(r"<!-- -->|\\", "", shown) == address
    assert markdown_escaped("majority@5 of 3.5: a@b, www") == "majority@5 of 3.5: a@b, www"
    assert markdown_escaped("ask @key2020") == r"ask \@key2020"  # for pandoc a citation


def test_what_cannot_be_seen_is_in_no_table() -> None:
    hidden = "a\x1b[31mb\x00c\u202ed\u2066e"
    assert markdown_escaped(hidden) == r"a\[U+001B\]\[31mb\[U+0000\]c\[U+202E\]d\[U+2066\]e"
    assert latex_escaped(hidden) == "a {[}31mb c d e"


def test_no_text_of_a_csv_is_a_formula_and_numbers_stay_numbers() -> None:
    texts = ['=HYPERLINK("x")', "+1 and more", "-text", "@SUM(A1)", "\tx", "\nx", "\u200b=1", "'=x", "plain", "a=b"]
    lines = list(
        csv.reader(io.StringIO(csv_text(pd.DataFrame({"text": texts, "n": [-23.7] * len(texts)})), newline=""))
    )
    assert [row[0] for row in lines[1:]] == [*("'" + text for text in texts[:-2]), "plain", "a=b"]
    assert {row[1] for row in lines[1:]} == {"-23.7"}


def test_no_text_of_a_csv_is_obeyed_by_a_terminal() -> None:
    link = "\x1b]8;;http://x.test\x1b\\\\click\x1b]8;;\x07"
    text = csv_text(pd.DataFrame({"text": [link, "a\x00b\x9b2J", "x\rHIDDEN", "\x00=1"], "\x1b[2Jcolumn": 1}))
    assert not [letter for letter in text if not letter.isprintable() and letter != "\n"]
    assert "[U+001B]]8;;http://x.test" in text and "a[U+0000]b[U+009B]2J" in text and "[U+0000]=1" in text


def test_latex_rows_and_notes() -> None:
    table = Table("my table_1", "100 % of it", ["Model", "a\nb"], [["x", "1"]], ["† note"])
    text = latex(table)
    assert r"\caption{100 \% of it}\label{tab:my-table-1}" in text
    assert r"Model & {\begin{tabular}[b]{@{}c@{}}a \\ b\end{tabular}} \\" in text
    assert "\nx & 1 \\\\\n" in text and r"\textdagger{} note" in text
    assert text.startswith("% Needs \\usepackage{booktabs,siunitx}.")


def test_wide_and_long_tables_are_split() -> None:
    header = ["Model", *(f"s{i}" for i in range(9))]
    wide = Table("w", "c", header, [["m", *"123456789"]], per_block=4)
    assert latex(wide).count(r"\begin{tabular}{@{}l") == 3 and latex(wide).count(r"\begin{table*}") == 1
    long = Table("l", "c", ["Model", "s"], [[f"m{i}", "1"] for i in range(99)])
    assert latex(long).count(r"\begin{longtable}") == 1 and "longtable" in latex(long).splitlines()[0]
    one_column = " longtable needs one column: put \\onecolumn before it, or the table into a one-column appendix."
    assert latex(long).splitlines()[0].endswith(one_column) and one_column not in latex(wide)
    both = Table("b", "c", header, [[f"m{i}", *"123456789"] for i in range(30)], per_block=4)
    assert "(part 1 of 3)" in latex(both) and latex(both).count(r"\caption") == 3


# --- Gold whose answers were written to their labels ----------------------------------------------------------------


def written(judge: str = "rules", **more: Any) -> dict[str, Any]:
    """A card on gold that no rater labelled, whose name comes first in the alphabet."""
    (card,) = cards()
    return card | {"judge": judge, "gold": "a-made", "raters": None, "written_to_label": True} | more


def test_labels_that_an_author_intended_are_never_peoples() -> None:
    both = [written(seen=True), *cards()]
    notes = judges_notes(["rules"], both, Labels())[1:]
    assert notes == [
        "Judge rules, agreement with people on pyrit (50 answers): kappa 0.80 strict, 0.80 broad; more in the judge "
        "cards.",
        "Judge rules, agreement with the author's intended labels on a-made (50 answers written to their "
        "labels; the judge was chosen or fitted on them): kappa 0.80 strict, 0.80 broad; more in the judge cards.",
    ]
    (alone, other) = judges_notes(["rules"], [written()], Labels())[1:]
    assert alone == "Judge rules, agreement with people: not measured."
    assert "people" not in other and "(50 answers written to their labels): kappa" in other
    frame = rates_frame(study()[:1], both)
    assert "a-made" not in frame["agreement_with_people"][0] and "pyrit" in frame["agreement_with_people"][0]
    assert rates_frame(study()[:1], [written()])["agreement_with_people"][0] == "agreement with people: not measured"


def test_captions_repeat_intended_labels_only_where_no_person_labelled_anything() -> None:
    assert agreement_note("rules", [written(), *cards()]) == agreement_note("rules", cards())
    alone = agreement_note("rules", [written()])
    assert alone.startswith(
        "Agreement of the judge with people: not measured; with the author's intended labels: kappa"
    )
    assert "(a-made, 50 answers written to their labels)" in alone


def test_the_page_of_a_benchmark_calls_no_intended_label_peoples() -> None:
    def found(*measured: dict[str, Any]) -> Benchmark:
        same = [{**measured[0], "gold": "other", "judge": measured[0]["gold"], "denied": {}}]
        return Benchmark("s", Labels(), measured, {}, {}, same, {})

    text, peoples = page(found(written(), *cards())), page(found(*cards()))
    assert "people" not in text and "human" not in text
    assert "No rater labelled a-made: its answers were written to their labels." in text
    assert "human labels" in peoples and "people's refusals" in peoples and "No rater" not in peoples
    assert {"author of a-made"} < set(frame(found(written(), *cards()))["judge"])
    assert {"people of pyrit"} < set(frame(found(*cards()))["judge"])


def by_model(**more: Any) -> dict[str, Any]:
    """A card on gold that a model labelled."""
    (card,) = cards()
    return card | {"gold": "b-model", "raters": None, "labelled_by_model": "GPT-4"} | more


def test_labels_of_a_model_are_never_peoples() -> None:
    (alone, other) = judges_notes(["rules"], [by_model()], Labels())[1:]
    assert alone == "Judge rules, agreement with people: not measured."
    start = "Judge rules, agreement with the labels of GPT-4 on b-model (50 answers labelled by GPT-4): kappa"
    assert other.startswith(start)
    assert agreement_note("rules", [by_model(), *cards()]) == agreement_note("rules", cards())
    both = agreement_note("rules", [by_model(), written()])
    assert both.startswith("Agreement of the judge with people: not measured; with the author's intended labels: kappa")
    assert "; with the labels of GPT-4: kappa" in both
    assert "b-model" not in rates_frame(study()[:1], [by_model()])["agreement_with_people"][0]
    for kind in (judges, judge_cards):
        table = table_of(kind, [], [by_model(), *cards()])
        assert "pyrit" in table.rows[0] and "b-model" in table.rows[-1]
        assert "No rater labelled b-model: its labels are those of GPT-4." in table.notes
        rows = frame_of(kind, [], [by_model(), *cards()])
        whose = rows.groupby("gold")["labelled_by_model"].first().to_dict()
        assert whose == {"b-model": "GPT-4", "pyrit": None} and not rows["written_to_label"].any()
    same = [{**by_model(), "gold": "other", "judge": "b-model", "denied": {}}]
    found = Benchmark("s", Labels(), [by_model()], {}, {}, same, {})
    assert "people" not in page(found) and "No rater labelled b-model: its labels are those of GPT-4." in page(found)
    assert {"model of b-model"} < set(frame(found)["judge"])


def test_no_column_of_the_tables_of_judges_is_called_after_people() -> None:
    for kind in (judges, judge_cards):
        assert not [column for column in frame_of(kind, [], [written(), *cards()]) if "people" in column]


def test_the_table_of_cards_has_kappa_without_labels_by_convention() -> None:
    (card,) = cards()
    kept = {**card, "n": 40, "broad": {**card["broad"], "kappa": 0.9}}
    kept["broad"]["intervals"] = card["broad"]["intervals"] | {"kappa": [0.8, 1.0]}
    measured = card | {"without_convention": kept}
    said = "Judge rules on pyrit, without the 10 answers whose label is a convention (they refuse and help, or deny a "
    (note,) = [note for note in table_of(judge_cards, [], [measured]).notes if note.startswith(said)]
    assert note.endswith("premise): kappa 0.90 [0.80, 1.00] (broad).")
    assert not any("convention" in note for note in table_of(judge_cards, [], [card]).notes)


def test_tables_of_judges_list_intended_labels_last_and_say_so() -> None:
    for kind in (judges, judge_cards):
        table = table_of(kind, [], [written(), *cards()])
        assert "pyrit" in table.rows[0] and "a-made" in table.rows[-1]
        text = " ".join([table.caption, *table.notes])
        assert "people's" not in text and "human labels" not in text and "with people" not in text
        assert "Each gold answer was labelled by one annotator (pyrit)." in text
        assert "No rater labelled a-made: its answers were written to their labels." in text
        frame = frame_of(kind, [], [written(), *cards()])
        assert frame.groupby("gold")["written_to_label"].first().to_dict() == {"a-made": True, "pyrit": False}


def test_tables_of_judges_say_which_judge_was_chosen_on_its_gold() -> None:
    (card,) = cards()
    for kind in (judges, judge_cards):
        seen = [card, card | {"gold": "g", "seen": True}]
        said = "Judge rules was chosen or fitted on g: its numbers there are too kind."
        assert said in table_of(kind, [], seen).notes
        assert not any("chosen or fitted" in note for note in table_of(kind, [], [card]).notes)
        frame = frame_of(kind, [], seen)
        assert frame.groupby("gold")["seen_gold"].first().to_dict() == {"g": True, "pyrit": False}


def test_what_an_earlier_version_made_of_an_analysis_is_named_with_what_to_do(tmp_path):
    path = tmp_path / "comparisons.json"
    path.write_text('{"estimates": [], "counted": {}, "dialogues": []}')
    data = TableData({"labels": {}}, {"comparisons": [str(path)]})
    with pytest.raises(UserError, match=r"comparisons\.json has no `turns`: .* earlier version .* Delete it and run"):
        data.found("comparisons", "counted", "turns")
    assert data.found("comparisons", "counted")["dialogues"] == []
