"""Sources, filters and marks of splits as users write them: what is refused, and what marks never touch."""

from pathlib import Path

import pytest
from config_project import BASE, CATALOGUE, COMMIT, SHA256, STUDY, WHOLE_STUDY, changed

from refusal_eval.config.references import read_references
from refusal_eval.study.row_sources import row_source
from refusal_eval.study.study import Study
from refusal_eval.workflow.data_stage import split_reading
from refusal_eval.workflow.rule_files import content_hash

HUB = {"kind": "hub", "repo": "owner/data", "revision": COMMIT}
URL = {"kind": "url", "url": f"https://example.org/{COMMIT}/rows.csv", "sha256": SHA256}


def with_split(project, study=None, **keys):
    """Write an own split `mine`; return what is wrong with a study that uses it, without file and line."""
    entry = {"source": HUB | {"split": "test"}, "expectation": "comply"} | keys
    project.write("own.yaml", {"datasets": {"own": {"splits": {"mine": entry}}}})
    found = project.mistakes(STUDY | {"catalogue": ["own.yaml"], "splits": ["mine"]} | (study or {}))
    return [line.split(": ", 1)[1].removeprefix("datasets.own.splits.mine.") for line in found]


# ---------------------------------------------------------------- sources


@pytest.mark.parametrize(
    "keys",
    [
        {"source": URL},
        {"source": URL | {"url": "http://127.0.0.1:8000/rows.jsonl", "encoding": "gb18030"}},
        {"source": HUB | {"file": "data/rows.csv", "sha256": SHA256, "skip_lines": 1, "encoding": "cp1252"}},
        {"where": {"label": "safe", "level": [1, "two", True]}, "expected_rows": 9, "expected_kept": 3},
        {"columns": {"prompt": "q", "id": "n", "keep": ["focus"]}, "clusters": "rows.csv"},
    ],
)
def test_splits_of_every_form_are_accepted(project, keys):
    assert with_split(project, **keys) == []


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"source": HUB},
            "source: name `split` (as the data set's card has it) or `file` (one file of the repository)",
        ),
        ({"source": HUB | {"split": "a", "file": "a.csv"}}, "source: name `split` "),
        ({"source": HUB | {"config": "a", "file": "a.csv"}}, "source: `config` belongs to `split`"),
        ({"source": HUB | {"split": "a", "sha256": SHA256}}, "source: `sha256` belongs to `file`"),
        ({"source": HUB | {"split": "a", "encoding": "utf-8"}}, "source: `encoding` belongs to `file`"),
        (
            {"source": HUB | {"file": "a.txt"}},
            "source.file: 'a.txt' is not a file that ends in .jsonl, .json, .csv or .parquet",
        ),
        ({"source": {"kind": "hub", "repo": "a/b", "split": "x"}}, "source.revision: this key is missing"),
        (
            {"source": URL | {"url": "http://example.org/a.csv"}},
            "source.url: 'http://example.org/a.csv' is not an https",
        ),
        (
            {"source": URL | {"url": "https://example.org/a.csv?x=1"}},
            "source.url: 'https://example.org/a.csv?x=1' is not",
        ),
        (
            {"source": URL | {"url": "https://me:pw@example.org/a.csv"}},
            "source.url: 'https://me:pw@example.org/a.csv' is",
        ),
        (
            {"source": URL | {"url": "http://127.0.0.1.example.org/a.csv"}},
            "source.url: 'http://127.0.0.1.example.org/a",
        ),
        ({"source": {"kind": "url", "url": URL["url"]}}, "source.sha256: this key is missing"),
        ({"source": URL | {"encoding": "gb-18030-x"}}, "source.encoding: 'gb-18030-x' is no text encoding that Python"),
        (
            {"source": URL | {"encoding": "hex"}},
            "source.encoding: 'hex' is no text encoding that Python knows, such as",
        ),
        (
            {"source": URL | {"url": "https://example.org/a.parquet", "encoding": "cp1252"}},
            "source.encoding: is for CSV and JSONL files only; leave it out",
        ),
        (
            {"source": URL | {"url": "https://example.org/a.jsonl", "skip_lines": 1}},
            "source.skip_lines: is for CSV files only; leave it out",
        ),
        ({"where": {}}, "where: must not be empty"),
        ({"where": {"label": []}}, "`where` names no value for the column `label`"),
        ({"where": {"label": {"a": 1}}}, "where.label: must be text, a number, true or false or a list, not a mapping"),
        ({"where": {"label": ["a", None]}}, "where.label[1]: must be text, "),
        ({"where": "safe"}, "where: must be a mapping of keys to values, not 'safe'"),
        ({"expected_kept": 3}, "`expected_kept` counts what `where` leaves; without it write `expected_rows`"),
        ({"clusters": "rows.csv"}, "`clusters` needs `columns.id`"),
        (
            {"clusters": "rows.csv", "columns": {"prompt": "q", "id": "n", "cluster": "c"}},
            "`clusters` and `columns.cluster` are two ways to say one thing",
        ),
        ({"clusters": "no.csv", "columns": {"prompt": "q", "id": "n"}}, "clusters: there is no file no.csv"),
    ],
)
def test_what_makes_no_sense_is_reported(project, keys, message):
    found = with_split(project, **keys)
    assert any(message in line for line in found), found


def test_a_file_of_clusters_lies_beside_the_file_that_names_it(project):
    project.write("far/pairs.csv", "id,cluster\n1,a\n")
    columns = {"prompt": "q", "id": "n"}
    split = {"source": URL, "expectation": "comply", "columns": columns, "clusters": "pairs.csv"}
    project.write("far/own.yaml", {"datasets": {"own": {"splits": {"mine": split}}}})
    config = project.load(STUDY | {"catalogue": ["far/own.yaml"], "splits": ["mine"]})
    assert config["split_entries"]["mine"]["clusters"] == "far/pairs.csv"
    before = split_reading(Study(config), "mine", Path())["clusters"]
    project.write("far/pairs.csv", "id,cluster\n1,other\n")
    content_hash.cache_clear()  # read once per run
    assert split_reading(Study(config), "mine", Path())["clusters"] != before


# ---------------------------------------------------------------- pins


@pytest.mark.parametrize(
    ("source", "key", "word"),
    [
        (HUB | {"split": "test", "revision": None}, "revision", "commit hash"),
        (URL | {"sha256": None}, "sha256", "SHA-256"),
    ],
)
def test_what_is_not_pinned_is_marked_and_runs_in_no_study(project, source, key, word):
    assert row_source(source).open_pin == key
    (reported,) = with_split(project, source=source)
    assert f"`source.{key}` may be null only with `enabled: false`, or with `unverified` that says so" in reported
    (reported,) = with_split(project, source=source, unverified=["the hash"])
    assert reported.startswith(f"source.{key}: the {word} is not known yet, and a study runs only on what is pinned")
    off = {"enabled": False, "reason": "never seen"}
    (reported,) = with_split(project, source=source, **off)
    assert "`mine` is off by default" in reported
    (reported,) = with_split(project, {"allow": ["mine"]}, source=source, **off)
    assert reported.startswith(f"source.{key}: the {word} is not known yet")
    assert with_split(project, {"splits": ["hub-rows"]}, source=source, **off) == [], "it is in nobody's way"


@pytest.mark.parametrize("value", [{"a": 1}, ["file"]])
def test_a_second_misspelt_kind_that_is_no_word_is_a_mistake(project, value):
    (reported,) = with_split(project, source={"kind": "file", "path": "rows.csv", "kin": value})
    assert reported.startswith("source.kin: unknown key `kin`; did you mean `kind`?")


def test_what_is_pinned_is_not_open():
    for source in (HUB | {"split": "test"}, URL, {"kind": "file", "path": "x.csv"}):
        assert row_source(source).open_pin is None


# ---------------------------------------------------------------- marks


def test_a_split_that_is_off_tells_why_and_how_to_switch_it_on(project):
    off = {"enabled": False, "reason": "not for commercial use.", "terms": "https://example.org/terms"}
    assert with_split(project, **off) == [
        "splits[0]: `mine` is off by default: not for commercial use (terms: https://example.org/terms). "
        "To use it all the same, write `allow: [mine]` into the study"
    ]
    assert with_split(project, {"allow": ["mine"]}, **off) == []


@pytest.mark.feature("judged")
def test_what_is_only_read_through_another_split_has_to_be_allowed_too(project):
    off = {"enabled": False, "reason": "not for commercial use.", "terms": "https://example.org/terms"}
    project.write(BASE, changed(CATALOGUE, ("engines", "off"), CATALOGUE["engines"]["wheel-engine"] | off))
    source = {"kind": "judged", "split": "mine", "model": "answers", "judge": "reads", "keep": {"label": "refusal"}}
    splits = {
        "mine": {"source": HUB | {"split": "test"}, "expectation": "comply"} | off,
        "made": {"source": source, "expectation": "varies"},
        "made-again": {"source": source | {"split": "made"}, "expectation": "varies"},
    }
    own = {
        "models": {"answers": {"engine": "off", "sampling": {"max_tokens": 9}}},
        "judges": {"reads": {"like": "reader", "engine": "off"}},
        "datasets": {"own": {"splits": splits}},
    }
    project.write("own.yaml", own)
    study = STUDY | {"catalogue": ["own.yaml"], "splits": ["made-again"]}
    found = [line.split(": ", 1)[1].removeprefix("datasets.own.splits.") for line in project.mistakes(study)]
    assert sorted(line.split(" is off by default: ")[0] for line in found) == [
        "made-again.source.judge: `reads`",
        "made-again.source.model: `answers`",
        "made.source.judge: `reads`",
        "made.source.model: `answers`",
        "made.source.split: `mine`",
    ]
    assert all("not for commercial use (terms: https://example.org/terms)" in line for line in found)
    assert project.mistakes(study | {"allow": ["mine", "answers", "reads"]}) == []


def test_a_study_allows_only_what_it_uses(project):
    (reported,) = project.mistakes(STUDY | {"allow": ["hub-row"]})
    assert reported.endswith(
        "allow[0]: `hub-row` is not one of `models`, `splits`, `judges` or `gold`; did you mean `hub-rows`? "
        "(allowed: hub-rows, plain, words)"
    )


@pytest.mark.parametrize(
    ("marks", "message"),
    [
        ({"enabled": False}, "`enabled: false` needs a `reason`"),
        ({"gated": True}, "`gated: true` needs `terms`"),
        ({"terms": "ask them"}, "terms: 'ask them' is not the address of a web page"),
        ({"citation": "someone2020"}, "citation: must be a list, not 'someone2020': write [someone2020]"),
        ({"citation": ["Some One, 2020"]}, "citation: 'Some One, 2020' is neither a key of"),
        ({"citation": ["someone2020"]}, "citation[0]: there is no `someone2020` in config/catalogue/references.bib"),
    ],
)
def test_marks_that_say_too_little_are_reported(project, marks, message):
    found = with_split(project, **marks)
    assert any(message in line for line in found), found


def test_citations_are_keys_of_the_shipped_file_or_bibtex(project):
    project.write(
        "config/catalogue/references.bib", "% a comment\n\n@misc{one2020,\n  title = {One}\n}\n\n% two\n@misc{t,\n}\n"
    )
    assert read_references(".") == {"one2020": "@misc{one2020,\n  title = {One}\n}", "t": "@misc{t,\n}"}
    own = "@misc{own,\n  title = {Own}\n}"
    assert with_split(project, citation=["one2020", own]) == []


def test_params_of_splits_that_use_nothing_new_are_frozen(project):
    reading = split_reading(Study(project.load(WHOLE_STUDY)), "hub-rows", Path())
    assert reading == {
        "source": {"kind": "hub", "repo": "owner/data", "revision": COMMIT, "config": None, "split": "test"},
        "sha256": None,
        "name": "owner/data",
        "skip_lines": 0,
        "columns": {"prompt": "question", "messages": None, "category": None, "cluster": None, "id": None},
        "expected_rows": None,
        "samples": [None, {"size": 7, "seed": 0}],
    }
