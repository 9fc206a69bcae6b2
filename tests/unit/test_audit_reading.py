"""What comes back: mistakes told with file and line, disputes, missing rows, weights, agreement of people."""

import csv
import io
import json
import random
import time
from collections import Counter

import pytest
import yaml
from audit_rows import exported
from independent_people import Twice, human_kappa

from refusal_eval.config.entries import Gold
from refusal_eval.core.errors import UserError
from refusal_eval.core.texts import csv_line
from refusal_eval.features.labelling.audit_folder import Audit
from refusal_eval.features.labelling.label_merging import (
    disputed_rows,
    gold_entry,
    gold_rows,
    label_rows,
    merge_labels,
    missing_bounds,
    probabilities,
)
from refusal_eval.features.labelling.rater_agreement import agreement, estimates
from refusal_eval.features.labelling.rater_files import PAGE, VALUE, disputed_sheet, plain_sheet_cell, sheet, sheet_cell
from refusal_eval.features.labelling.rater_marks import RaterMark, check_finished, read_marks

R, P, C = "refusal", "partial", "compliance"


def audit_with(n: int = 40, double: int = 20, raters: tuple[str, ...] = ("anna", "ben")) -> Audit:
    """An audit of n rows, the first `double` of them with two raters; the first half was drawn with probability 0.5."""
    sample, orders = {}, {rater: [] for rater in raters}
    for i in range(n):
        name = f"{i:016x}"
        own = list(raters[:2]) if i < double else [raters[i % len(raters)]]
        for rater in own:
            orders[rater].append(name)
        sample[name] = {
            "id": name,
            "probability": 0.5 if i < n // 2 else 0.1,
            "stratum": "disagree" if i < n // 2 else "compliance",
            "cluster": f"c{i}",
            "messages": [{"role": "user", "content": f"=Question {i}"}],
            "answer": f"Answer {i}",
            "members": [["m", "s", f"p{i}", 0, 0]],
            "raters": own,
        }
    strata = {"disagree": {"answers": n}, "compliance": {"answers": 5 * n}}
    return Audit({"audit": "aud1", "study": "st", "seed": 0, "strata": strata, "orders": orders}, sample)


def marks_of(audit: Audit, label) -> list[RaterMark]:
    return [
        RaterMark(rater, name, label(rater, int(name, 16)), "", "f, line 1")
        for rater, names in audit.orders.items()
        for name in names
    ]


def agreed(audit: Audit, marks) -> dict:
    return agreement(merge_labels(audit, marks), len(audit.orders))


def read(tmp_path, audit, text, name="sheet.csv"):
    (tmp_path / name).write_text(text, encoding="utf-8")
    return read_marks([tmp_path / name], audit)


def test_a_filled_sheet_is_read_and_what_is_empty_is_unfinished(tmp_path):
    audit = audit_with()
    text = sheet("aud1", "anna", [audit.sample[name] for name in audit.orders["anna"][:3]])
    lines = text.splitlines()
    lines[1] = lines[1].removesuffix(",,") + ", Refusal ,'=note"
    marks = read(tmp_path, audit, "\n".join(lines))
    assert [(mark.rater, mark.label, mark.comment) for mark in marks] == [("anna", "refusal", "=note")]
    order = audit.orders["anna"]
    left = f"anna: {len(order) - 1} of {len(order)} rows have no label yet, the first of them row 2 .{order[1]}.\nben: "
    with pytest.raises(UserError, match=left):
        check_finished(audit, marks)


# What spreadsheets write back in another form: as a number, a date, a truth value.
CHANGED = (
    *("1.0", "007", "1e5", "1.5E-3", " 12 ", "5\n", "50%", "$5", "5 \u20ac", "(5)", ".5", "1,000.50"),
    "3.14" + "15926" * 20,
    *("3/4", "3-4", "3.4.", "2024-01-02", "2024-01-02T12:30Z", "12:30 PM", "5 Jan", "Jan 5", "March 5, 2024"),
    *("5. M\u00e4rz", "Mon, 5 Jan 2024", "2024\u5e745\u67083\u65e5", "TRUE", "false", "Wahr"),
)
IDS = ("1234567890123456", "0000000000000012", "123e456789012345", "12345678901234e5")


def through_a_spreadsheet(text: str) -> str:
    """Return a sheet as a spreadsheet saves it that knows the texts above, and keeps what an apostrophe is before."""
    rows = list(csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline="")))
    changed = {*CHANGED, *IDS}
    kept = [["changed" if cell in changed else cell for cell in row] for row in rows]
    return "".join(map(csv_line, kept))


@pytest.mark.parametrize("value", CHANGED)
def test_no_id_and_no_text_is_lost_in_a_spreadsheet(tmp_path, value):
    audit = audit_with(n=4, double=0, raters=("anna",))
    rows = [
        {**row, "id": name, "answer": value, "messages": [{"role": "user", "content": value}]}
        for row, name in zip(audit.sample.values(), IDS, strict=True)
    ]
    audit = Audit({**audit.design, "orders": {"anna": list(IDS)}}, {row["id"]: row for row in rows})
    for apostrophes in ("'", ""):  # some spreadsheets drop the apostrophe, and the text stays one
        saved = through_a_spreadsheet(sheet("aud1", "anna", rows)).replace(",'", f",{apostrophes}")
        filled = saved.replace(",,\n", ",refusal,1/2\n")
        assert filled.count("refusal") == 4
        marks = read(tmp_path, audit, filled)
        assert [(mark.id, mark.label, mark.comment) for mark in marks] == [(name, R, "1/2") for name in sorted(IDS)]


def test_an_apostrophe_comes_off_as_often_as_it_was_set():
    for text in (*CHANGED, *IDS, "=1", "No.", "aud1", "'", "'5", "''=", "I can't.", "Answer 5", ""):
        assert plain_sheet_cell(sheet_cell(text)) == text
        assert plain_sheet_cell(sheet_cell(sheet_cell(text))) == sheet_cell(text)
    for text in ("No.", "aud1", "I can't.", "Answer 5"):
        assert sheet_cell(text) == text


def test_the_page_knows_the_same_texts():
    assert f"const VALUE = /^(?:{VALUE})$/i;" in (PAGE / "page.js").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("aud1,anna", "other,anna", "line 2: belongs to audit `other`, and this is aud1 of study st"),
        ("aud1,anna", "aud1,ana", "line 2: there is no rater `ana`.*anna"),
        ("0000000000000000", "00000000000000ff", "line 2: row `00000000000000ff` is not in this audit"),
        ("0000000000000000", "0000000000000021", "line 2: row 0000000000000021 was not given to anna"),
        ("Answer 0", "Answer zero", "line 2: the answer of row 0000000000000000 was changed"),
        ("'=Question 0", "=Question", "line 2: the prompt of row 0000000000000000 was changed"),
        (",refusal,", ",refused,", "line 2: the label `refused` is none of refusal, partial, compliance, unsure, skip"),
    ],
)
def test_mistakes_are_reported_with_file_and_line(tmp_path, old, new, message):
    audit = audit_with()
    text = sheet("aud1", "anna", [audit.sample[name] for name in audit.orders["anna"][:1]]).replace(
        ",,\n", ",refusal,\n"
    )
    assert old in text
    with pytest.raises(UserError, match=rf"sheet\.csv, {message}"):
        read(tmp_path, audit, text.replace(old, new))


def test_two_labels_of_one_rater_are_refused_and_the_same_twice_counts_once(tmp_path):
    audit = audit_with()
    name = audit.orders["anna"][0]
    one = exported(tmp_path / "one.json", "aud1", "anna", {name: R})
    two = exported(tmp_path / "two.json", "aud1", "anna", {name: R})
    assert len(read_marks([one, two], audit)) == 1
    two = exported(tmp_path / "two.json", "aud1", "anna", {name: C})
    with pytest.raises(
        UserError, match=r"two\.json, line \d+: anna says compliance here, and refusal in .*one\.json, line"
    ):
        read_marks([one, two], audit)


def test_all_mistakes_are_reported_at_once_and_not_more_than_can_be_read(tmp_path):
    audit = audit_with()
    path = exported(tmp_path / "x.json", "aud1", "anna", {f"bad{i}": R for i in range(30)})
    with pytest.raises(UserError) as reported:
        read_marks([path], audit)
    assert len(str(reported.value).splitlines()) == 21
    assert str(reported.value).endswith("... and 10 more")


@pytest.mark.parametrize("text", ["{", "[]", '{"format": "other", "labels": []}'])
def test_another_json_file_is_refused(tmp_path, text):
    with pytest.raises(UserError, match=r"x\.json: is no"):
        read(tmp_path, audit_with(), text, "x.json")


def test_rows_are_resolved_by_the_documented_rule():
    audit = audit_with()
    marks = marks_of(audit, lambda rater, i: R if rater == "anna" or i % 2 else C)
    marks.append(RaterMark("", f"{4:016x}", P, "", "d"))
    rows = {int(one.row["id"], 16): one for one in merge_labels(audit, marks)}
    assert (rows[1].label, rows[1].how, rows[1].people) == (R, "agreed", 2)
    assert (rows[4].label, rows[4].how, rows[4].people) == (P, "adjudicated", 3)
    assert (rows[30].how, rows[30].people) == ("single", 1)
    drawn = Counter(row.label for row in rows.values() if row.how == "drawn")
    assert set(drawn) == {R, C} and sum(drawn.values()) == 9
    assert merge_labels(audit, marks[::-1]) == merge_labels(audit, marks)


def test_drawn_labels_keep_the_rate_that_random_raters_would_give():
    """Where two raters differ by a lot, rows that both labelled must not tilt the rate to either side."""
    rates = []
    for seed in range(60):
        audit = audit_with(40, 40)
        audit.design["seed"] = seed
        rows = merge_labels(audit, marks_of(audit, lambda rater, i: R if rater == "anna" else C))
        rates.append(sum(row.label == R for row in rows) / 40)
    assert abs(sum(rates) / 60 - 0.5) < 0.04


def test_missing_rows_are_stood_for_by_their_stratum_and_the_weights_keep_their_sum():
    audit = audit_with(40, 0)
    marks = marks_of(audit, lambda rater, i: "skip" if i in (0, 1, 2, 3, 4) else "unsure" if i == 25 else R)
    rows = merge_labels(audit, marks)
    found = probabilities(audit, rows)
    assert found[f"{9:016x}"] == pytest.approx(0.5 * 15 / 20)
    assert found[f"{30:016x}"] == pytest.approx(0.1 * 19 / 20)
    assert sum(1 / p for p in found.values()) == pytest.approx(20 / 0.5 + 20 / 0.1)
    bounds = missing_bounds(rows)
    assert bounds["rows"] == 6 and bounds["share"] == pytest.approx(20 / 240)
    assert bounds["broad"] == pytest.approx({"low": 220 / 240, "high": 1, "labelled": 1})
    assert sum(one.how == "missing" for one in rows) == 6


def test_a_stratum_without_a_label_is_an_error():
    audit = audit_with(40, 0)
    rows = merge_labels(audit, marks_of(audit, lambda rater, i: "unsure" if i < 20 else R))
    with pytest.raises(UserError, match=r"no row of the stratum disagree has a label, .* its 40 answers"):
        probabilities(audit, rows)


def test_the_sheet_of_disputes_holds_what_nobody_decided_and_is_read_back(tmp_path):
    audit = audit_with()
    label = {0: {"anna": R, "ben": C}, 1: {"anna": "unsure", "ben": "skip"}, 2: {"anna": "unsure", "ben": R}}
    marks = marks_of(audit, lambda rater, i: label.get(i, {}).get(rater, R))
    rows = disputed_rows(merge_labels(audit, marks))
    assert [(int(row["id"], 16), row["labels"]) for row in rows] == [(0, "compliance | refusal"), (1, "skip | unsure")]
    text = disputed_sheet("aud1", rows)
    lines = text.splitlines()
    lines[1] = lines[1].removesuffix(",") + "partial,it lectures"
    decided = read(tmp_path, audit, "\n".join(lines), "disputed.csv")
    assert [(mark.rater, mark.id, mark.label) for mark in decided] == [("", f"{0:016x}", P)]
    after = disputed_rows(merge_labels(audit, [*marks, *decided]))
    assert [(row["adjudicated"], row["comment"]) for row in after] == [(P, "it lectures"), ("", "")]


def test_a_column_of_ones_own_would_be_lost_in_the_sheet_of_disputes_and_is_refused(tmp_path):
    audit = audit_with()
    marks = marks_of(audit, lambda rater, i: R if rater == "anna" else C)
    head, line, *_ = disputed_sheet("aud1", disputed_rows(merge_labels(audit, marks))).splitlines()
    assert read(tmp_path, audit, f"{head},decided_by\n{line},\n", "disputed.csv") == []
    with pytest.raises(UserError, match=r"line 2: `decided_by` is no column of the sheet .* to `comment`"):
        read(tmp_path, audit, f"{head},decided_by\n{line},the chair\n", "disputed.csv")


def test_kappa_of_people_by_hand():
    audit = audit_with(80, 40)
    # Of 40 rows 18 both refuse, 18 both comply, 4 differ: agreement .9, chance .5 with even margins.
    second = {i: C if i in (0, 1) else R if i in (38, 39) else R if i < 20 else C for i in range(40)}
    marks = marks_of(audit, lambda rater, i: second[i] if rater == "ben" and i < 40 else R if i < 20 else C)
    found = agreed(audit, marks)
    assert found["n"] == found["n_clusters"] == 40
    assert found["broad"]["agreed"] == pytest.approx(0.9)
    assert found["broad"]["kappa"] == pytest.approx(0.8)  # all drawn with probability .5: weights are equal
    assert found["broad"]["kappa_of_sample"] == pytest.approx(0.8)
    low, high = found["broad"]["interval"]
    assert 0.5 < low < 0.8 < high < 1
    assert found["confusion"][R] == {R: 18, P: 0, C: 2}
    assert [row["value"] for row in estimates(found)] == pytest.approx([0.8, 0.8, 0.8])


def test_kappa_of_people_names_how_its_interval_was_made_and_is_marked_by_effective_clusters():
    audit = audit_with(80, 40)
    marks = marks_of(audit, lambda rater, i: R if i % 2 or (rater == "ben" and i in (0, 2, 4)) else C)
    apart = estimates(agreed(audit, marks))
    for i in range(10):
        audit.sample[f"{i:016x}"]["cluster"] = "large"
    found = agreed(audit, marks)
    assert found["n_clusters"] == 31  # which are worth 40^2 / (10^2 + 30) = 12
    for rows, flags in ((apart, []), (estimates(found), ["few_clusters"])):
        assert [row["flags"] for row in rows] == [flags] * 3
        assert rows[0]["method"] == "cluster bootstrap, expanded percentile, at least what unseen errors allow"


def test_kappa_counts_rows_by_what_they_stand_for():
    audit = audit_with(40, 40)
    # They differ only where rows were drawn five times as densely.
    marks = marks_of(audit, lambda rater, i: C if i % 2 or (rater == "ben" and i in (0, 2, 4, 6)) else R)
    found = agreed(audit, marks)["broad"]
    assert found["kappa"] > found["kappa_of_sample"] + 0.05
    assert found["agreed"] == pytest.approx(1 - 4 / 0.5 / (20 / 0.5 + 20 / 0.1))


@pytest.mark.parametrize("raters", [("anna", "ben"), ("anna", "ben", "cleo")])
@pytest.mark.parametrize("reading", ["strict", "broad", ""])
@pytest.mark.parametrize("differ", [0.0, 0.2, 1.0])
def test_kappa_of_people_is_that_of_the_docs(raters, reading, differ):
    audit = audit_with(120, 100, raters)
    for i in range(100):
        audit.sample[f"{i:016x}"]["cluster"] = f"c{i // 2}"
    rng = random.Random(1)
    others = {R: C, P: C, C: R}
    said = {i: [label, others[label] if rng.random() < differ else label] for i, label in enumerate([R, P, C, C] * 25)}
    marks = marks_of(audit, lambda rater, i: said[i][rater == "ben"] if i < 100 else C)
    rows = [
        Twice(tuple(said[i]), 1 / audit.sample[name]["probability"], audit.sample[name]["cluster"])
        for i, name in enumerate(list(audit.sample)[:100])
    ]
    value, low, high = human_kappa(rows, len(raters), reading, 0.05)
    people = agreed(audit, marks)
    assert (people["kind"] == "two raters at random") == (len(raters) > 2)
    found = people[reading or "three_class"]
    assert found["kappa"] == pytest.approx(value, abs=1e-6)  # weights have six digits
    assert low.least - 1e-6 <= found["interval"][0] <= low.most + 1e-6
    assert high.least - 1e-6 <= found["interval"][1] <= high.most + 1e-6


def test_which_rater_comes_first_changes_no_interval():
    audit = audit_with(80, 40)
    # One says refusal in 3 of 40 rows, the other in 20: their classes are of other sizes.
    one = marks_of(audit, lambda rater, i: R if i < (3 if rater == "anna" else 20) else C)
    other = marks_of(audit, lambda rater, i: R if i < (20 if rater == "anna" else 3) else C)
    for measure in ("interval", "agreed_interval"):
        first, second = (agreed(audit, marks)["broad"][measure] for marks in (one, other))
        assert first == pytest.approx(second, abs=0.002)


def test_few_rows_one_class_or_one_rater_give_no_kappa():
    few = audit_with(40, 5)
    assert agreed(few, marks_of(few, lambda rater, i: R))["broad"]["kappa"] is None
    alike = audit_with()
    found = agreed(alike, marks_of(alike, lambda rater, i: R))
    assert (found["broad"]["kappa"], found["broad"]["agreed"]) == (None, 1.0)
    alone = audit_with(20, 0, ("anna",))
    assert agreed(alone, marks_of(alone, lambda rater, i: R))["n"] == 0


def test_labels_and_gold_carry_the_weights():
    audit = audit_with(20, 10)
    name = f"{0:016x}"
    audit.sample[name]["members"] = [["m", "s", "p0", 0, 0], ["m", "s", "p0", 1, 0], ["n", "s", "p0", 0, 0]]
    rows = merge_labels(audit, marks_of(audit, lambda rater, i: R))
    found = probabilities(audit, rows)
    labels = label_rows(audit, rows, found)
    assert len(labels) == 22
    assert {row["model"] for row in labels if row["text"] == name} == {"m", "n"}
    assert all(row["probability"] > 0 and row["raters"] in (1, 2) for row in labels)
    gold = gold_rows(rows, found, {"s": "refuse"})
    first = [(row["answering_model"], row["weight"], row["expectation"]) for row in gold if row["id"] == name]
    assert first == [("m", 4.0, "refuse"), ("n", 2.0, "refuse")]
    assert sum(row["weight"] for row in gold) == pytest.approx(sum(1 / row["probability"] for row in labels))


@pytest.mark.parametrize(
    ("raters", "statistic"), [(("anna", "ben"), "Cohen's kappa"), (("anna", "ben", "cleo"), "Fleiss' kappa")]
)
def test_the_entry_is_a_catalogue_file_that_calls_the_kappa_what_it_is(raters, statistic):
    audit = audit_with(80, 40, raters)
    people = agreed(audit, marks_of(audit, lambda rater, i: R if i % 2 else C))
    entry = yaml.safe_load(gold_entry(audit, "gold.jsonl", 80, people))["gold"]["st-audit"]
    assert Gold(**entry).columns.weight == "weight"
    assert entry["human_kappa"]["statistic"] == statistic
    assert entry["human_kappa"]["broad"] == 1.0
    assert "40 rows with two raters, 95 % interval" in entry["human_kappa"]["source"]
    assert json.dumps(entry)
    (second,) = yaml.safe_load(gold_entry(audit, "gold.jsonl", 80, people, "Arabic 2"))["gold"].items()
    assert (second[0], second[1]["label"]) == ("st-arabic-2", "Audit of st (Arabic 2)")


def test_many_labels_of_the_page_are_read_in_a_moment(tmp_path):
    audit = audit_with(20_000, 0, ("anna",))
    rows = [json.dumps({"id": name, "label": R, "comment": "x" * 100}) for name in audit.orders["anna"]]
    head = json.dumps({"format": "refusal-eval audit labels 1", "audit": "aud1", "rater": "anna"})[:-1]
    started = time.process_time()
    marks = read(tmp_path, audit, head + ', "labels": [\n' + ",\n".join(rows) + "\n]}\n", "labels.json")
    assert time.process_time() - started < 3, "the text must not be searched from its beginning for each row"
    assert [mark.place[-10:] for mark in marks[:2]] == ["on, line 2", "on, line 3"]


@pytest.mark.parametrize(
    "labels",
    [
        "[" * 100_000 + "]" * 100_000,
        "9" * 5000,
        '[{"id": {"a": 1}, "label": "refusal"}]',
        '[{"id": ' + "[" * 900 + "]" * 900 + "}]",
        '[{"id": "\\ud83d", "label": "refusal"}]',
    ],
)
def test_a_file_of_labels_that_cannot_be_read_is_reported_with_its_name(tmp_path, labels):
    text = '{"format": "refusal-eval audit labels 1", "audit": "aud1", "rater": "anna", "labels": ' + labels + "}"
    with pytest.raises(UserError, match=r"labels\.json"):
        read(tmp_path, audit_with(), text, "labels.json")
