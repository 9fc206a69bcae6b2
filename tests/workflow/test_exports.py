"""A finished study goes out as logs of inspect and as data sets, and comes back with the same labels and rates."""

import csv
import json
import os
import re
import zipfile
from pathlib import Path

import datasets
import pyarrow.parquet as pq
import pytest
from exported_study import JUDGES, answers, exported, labels, made_of_rows, made_study, rows
from program import in_process

from refusal_eval.core.files import read_jsonl

pytestmark = pytest.mark.feature("exports", "recorded_logs", "rates", "judge_pairs", "comparisons")
FORMS = ("inspect", "hf")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Return a folder with study/ and the exports of it, by form and level."""
    folder = tmp_path_factory.mktemp("exports")
    made_of_rows(folder)
    for form in FORMS:
        for level in ("labels", "answers", "all"):
            exported(folder, form, level)
    return folder


def results_of(folder):
    return folder / "study" / "results" / "made"


def texts():
    """Every text that is in the answers: prompts, system messages, answers, reasoning, what was blocked, reasons."""
    found = set()
    for row in rows():
        found |= {message["content"] for message in row["messages"]}
        found |= {row["answer"], row.get("reasoning") or "", row.get("reason") or ""}
        found |= {row.get("blocked", {}).get("partial") or ""}
    return {text for text in found if text}


def content(folder):
    """Everything that an export says, as text: members of archives and columns of tables too."""
    said = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        said.append(str(path.relative_to(folder)))
        if path.suffix == ".eval":
            with zipfile.ZipFile(path) as archive:
                said += [archive.read(name).decode() for name in archive.namelist()]
        elif path.suffix == ".parquet":
            table = pq.read_table(path)
            said += [json.dumps(row, ensure_ascii=False) for row in table.to_pylist()]
            said.append(str(table.schema))
        else:
            said.append(path.read_text(encoding="utf-8"))
    return "\n".join(said)


def as_written(text):
    """The ways in which a text may be written down."""
    return {text, json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1]}


@pytest.mark.parametrize("form", FORMS)
def test_labels_alone_hold_no_text_of_a_prompt_or_an_answer(study, form):
    held, whole = content(study / f"{form}-labels"), content(study / f"{form}-answers")
    assert len(texts()) > 15
    for text in texts():
        assert not any(way in held for way in as_written(text)), text
    assert "zz" not in held and "knives" not in held
    missing = {text for text in texts() if not any(way in whole for way in as_written(text))}
    assert missing == set()  # the search finds what is there


@pytest.mark.parametrize("form", FORMS)
def test_what_judges_wrote_is_in_the_last_level_alone(study, form):
    phrases = {
        row["raw"]["phrase"]
        for file in (results_of(study) / "verdicts" / "keyword").rglob("*.jsonl")
        for row in read_jsonl(file)
    } - {""}
    assert phrases
    written = re.compile(r'\\?"phrase\\?": ?\\?"')
    assert written.search(content(study / f"{form}-all"))
    assert not written.search(content(study / f"{form}-answers")) and not written.search(
        content(study / f"{form}-labels")
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("level", ["labels", "answers", "all"])
def test_no_path_of_this_machine_is_in_an_export(study, form, level):
    held = content(study / f"{form}-{level}")
    assert str(study) not in held and str(Path.home()) not in held.replace("/root/", "") and "study/results" not in held


@pytest.mark.parametrize("form", FORMS)
def test_an_export_comes_back_with_the_same_answers_labels_and_rates(study, form, tmp_path):
    back = made_study(tmp_path, study / f"{form}-answers")
    first = results_of(study)
    assert answers(back) == answers(first)
    assert labels(back) == labels(first) and len(labels(back)) > 20
    rates, again = rates_of(first), rates_of(back)
    assert len(rates) > 30
    for place, value in rates.items():
        assert again[place] == pytest.approx(value, abs=1e-12, rel=0), place
    entries = (tmp_path / "study" / "entries.yaml").read_text()
    theirs = dict(re.findall(r"  (theirs-\d):\n    kind: recorded\n    by: (\S+)", entries))
    assert set(theirs.values()) == set(JUDGES)
    for name, judge in theirs.items():  # labels that came along give the rates of the judge that they are of
        own = {place[1:]: value for place, value in rates.items() if place[0] == judge}
        came = {place[1:]: value for place, value in again.items() if place[0] == name}
        assert came == pytest.approx(own, abs=1e-12, rel=0) and own


def rates_of(results):
    """Refusal rates with their bounds of interval, by what they are about."""
    with open(results / "results_table" / "results.csv", encoding="utf-8", newline="") as handle:
        found = {}
        for row in csv.DictReader(handle):
            if row["estimand"] == "refusal_rate":
                place = tuple(
                    row[name] for name in ("judge", "model", "split", "pool", "category", "reading", "parameter")
                )
                found |= {(*place, end): float(row[end]) for end in ("value", "low", "high") if row[end]}
        return found


def test_labels_alone_cannot_be_judged_and_the_message_says_what_to_do(study, tmp_path):
    run = in_process("judge", str(study / "inspect-labels"), "--name", "x", cwd=tmp_path)
    assert run.returncode == 1 and "exported with `--level labels`, without prompts and answers" in run.stderr
    run = in_process("judge", str(study / "hf-labels" / "data" / "states.parquet"), "--name", "x", cwd=tmp_path)
    assert run.returncode == 1 and "has no column with the answers" in run.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_data_sets_loads_with_every_configuration(study, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    kept = {"labels": ["states", "verdicts", "results"]}
    kept |= {level: ["answers", *kept["labels"]] for level in ("answers", "all")}
    for level, names in kept.items():
        folder = str(study / f"hf-{level}")
        assert sorted(datasets.get_dataset_config_names(folder)) == sorted(names)
        cache = str(tmp_path / level)
        loaded = {name: datasets.load_dataset(folder, name, cache_dir=cache, split="train") for name in names}
        assert datasets.load_dataset(folder, cache_dir=cache, split="train").features == loaded[names[0]].features
        assert loaded["states"].num_rows == 48 and loaded["results"].num_rows > 100
        counted = sum(label is not None for label in loaded["verdicts"]["label"])
        assert counted == len([one for one in labels(results_of(study)).values() if one[0]])
        if level != "labels":
            by_state = {row["state"]: row for row in loaded["answers"]}
            assert set(by_state) == {
                *("complete", "truncated", "blocked", "failed", "empty", "truncated_reasoning", "too_long")
            }
            assert by_state["blocked"]["blocked"]["partial"] == "zzpartial of it"


def test_the_card_says_that_no_licence_is_given_and_what_each_split_is_under(study):
    card = (study / "hf-answers" / "README.md").read_text()
    assert "No licence is stated here" in card and "| easy | none stated |" in card and "| hard | none stated |" in card


def test_an_export_of_one_judge_holds_no_other(study):
    folder = exported(study, "hf", "labels", "--judge", "keyword", "--output", "one")
    assert folder.name == "hf-labels"  # the last --output counts
    judges = pq.read_table(study / "one" / "data" / "verdicts.parquet")["judge"].unique().to_pylist()
    assert judges == ["keyword"]
    assert set(pq.read_table(study / "one" / "data" / "results.parquet")["judge"].unique().to_pylist()) <= {
        "keyword",
        None,
    }


@pytest.mark.parametrize("form", FORMS)
def test_an_export_that_is_there_is_not_replaced(study, form):
    there = study / f"{form}-all"
    before = {path: path.stat().st_mtime_ns for path in there.rglob("*")}
    run = in_process("export", "study/study.yaml", "--as", form, "--output", there.name, cwd=study)
    assert run.returncode == 1 and f"{form}-all is there already; choose another --output" in run.stderr
    assert {path: path.stat().st_mtime_ns for path in there.rglob("*")} == before


def test_mistakes_leave_nothing_behind(study):
    before, new = sorted(study.iterdir()), ("--output", "new")
    for arguments, code, said in [
        (["--as", "inspct", *new], 2, "there is no form `inspct`; did you mean `inspect`?"),
        (
            ["--as", "published", "--level", "labels"],
            2,
            "`published` holds prompts and answers, and has no level `labels`",
        ),
        (["--as", "hf", "--level", "some", *new], 2, "--level"),
        (["--as", "hf", "--judge", "keywrod", *new], 1, "the study has no judge `keywrod`; did you mean `keyword`?"),
        (["--as", "inspect", "--check", "hf-all"], 1, "`inspect` has none"),
    ]:
        run = in_process("export", "study/study.yaml", *arguments, cwd=study)
        assert run.returncode == code and said in run.stderr, run.stderr
    assert sorted(study.iterdir()) == before


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ("results/made/verdicts/keyword/a/easy.jsonl", "verdicts/keyword/a/easy.jsonl: run the study, then export it"),
        ("answers/a.jsonl", "is not of the study as it is now: run the study again, then export it"),
    ],
)
def test_a_study_that_has_changed_since_is_not_exported(study, changed, said):
    file = study / "study" / changed
    kept, times = file.read_bytes(), file.stat()
    if "results" in changed:
        file.unlink()
    else:
        file.write_bytes(kept.replace(b"zzfar", b"zznear"))
    try:
        run = in_process("export", "study/study.yaml", "--as", "hf", "--output", "changed", cwd=study)
        assert run.returncode == 1 and said in run.stderr
        assert not [path for path in study.iterdir() if "changed" in path.name]
    finally:
        file.write_bytes(kept)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
