"""Files that are read and written: what is damaged is reported with its name and line, and never with a traceback."""

import errno
import os
import time

import pytest

from refusal_eval.core import files
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import (
    BadFile,
    as_planned,
    read_json,
    read_jsonl,
    read_users_text,
    remove_left_over,
    sha256_of_file,
    write_json,
    write_jsonl,
    written_whole,
)
from refusal_eval.core.rubric import rubric_mistake
from refusal_eval.core.template_file import read_template

DAMAGES = {
    "no JSON": b'{"a": 1',
    "nested too deeply": b"[" * 100_000 + b"]" * 100_000,
    "a number of 5,000 digits": b"9" * 5000,
    "bytes that are no UTF-8": b'{"a": "\xff"}',
    "half a character": b'{"a": "\xe2\x82"}',
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_json_that_cannot_be_read_is_reported_with_its_file(tmp_path, damage):
    (tmp_path / "a.json").write_bytes(damage)
    with pytest.raises(BadFile, match=r"a\.json is not valid JSON"):
        read_json(tmp_path / "a.json")


NO_VALUES = (b'{"a":5', b'{"a":5},{"a":6}', b"{'a': 5}", b'{"a":5}]', b"[5", b"5,")


@pytest.mark.parametrize("damage", [*DAMAGES.values(), *NO_VALUES])
def test_a_line_that_cannot_be_read_is_reported_with_its_number(tmp_path, damage):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\n' * 3 + damage + b'\n{"a": 1}\n')
    with pytest.raises(BadFile, match=r"a\.jsonl, line 4: not valid JSON"):
        list(read_jsonl(path))


def test_half_of_a_surrogate_pair_is_written_as_a_replacement_character(tmp_path):
    write_json(tmp_path / "a.json", {"text": "a \ud83d b"})
    write_jsonl(tmp_path / "a.jsonl", [{"text": "\udc00\ud83d"}, {"text": "\U0001f600"}])
    assert read_json(tmp_path / "a.json") == {"text": "a \ufffd b"}
    assert list(read_jsonl(tmp_path / "a.jsonl")) == [{"text": "\ufffd\ufffd"}, {"text": "\U0001f600"}]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_a_full_disk_is_reported_with_the_file_and_leaves_nothing_behind(tmp_path, monkeypatch, number, where):
    def full(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files.os, where, full)
    why = os.strerror(number)
    with pytest.raises(UserError, match=rf"scores\.json: {why}; free space and run again") as reported:
        write_json(tmp_path / "scores.json", {})
    assert isinstance(reported.value, OSError)
    assert list(tmp_path.iterdir()) == []


def test_other_faults_of_a_disk_stay_what_they_are(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError), written_whole(tmp_path / "folder") as stream:
        stream.write("x")


ROWS = [{"answer": 'a "quoted",\\ \u2028 line\n', "logprob": -1e-17, "n": i, "none": None} for i in range(7)]


@pytest.mark.parametrize("count", [0, 1, 7])
def test_rows_are_those_that_were_written(tmp_path, count):
    write_jsonl(tmp_path / "a.jsonl", ROWS[:count])
    assert list(read_jsonl(tmp_path / "a.jsonl")) == ROWS[:count]


def test_blank_lines_are_skipped_and_the_last_line_may_have_no_end(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"a":1}\n\n  \n{"a":2}\n{"a":3}\n\n{"a":4}')
    assert list(read_jsonl(tmp_path / "a.jsonl")) == [{"a": n} for n in (1, 2, 3, 4)]


@pytest.mark.parametrize("when", ["before", "meanwhile", "gone"])
def test_a_file_that_is_edited_after_a_run_was_planned_is_not_read_as_what_was_planned(tmp_path, when):
    own, fetched = tmp_path / "own.md", tmp_path / "fetched"
    own.write_text("planned")
    planned = [sha256_of_file(own), None]
    with as_planned([own, fetched], planned):
        fetched.write_text("by the run itself")
    if when != "meanwhile":
        own.write_text("edited") if when == "before" else own.unlink()
    computed = []

    def compute():
        with as_planned([own, fetched], planned):
            computed.append(when)
            own.write_text("edited")

    with pytest.raises(UserError, match=r"own\.md has changed since this run was planned; run again"):
        compute()
    assert computed == ["meanwhile"] * (when == "meanwhile"), "nothing is computed in vain"


def test_a_byte_order_mark_is_no_part_of_what_is_read(tmp_path):
    path = tmp_path / "file"
    path.write_text('{"a": 1}\n{"a": 2}\n', encoding="utf-8-sig")
    assert [row["a"] for row in read_jsonl(path)] == [1, 2]
    path.write_text('{"a": 1}', encoding="utf-8-sig")
    assert read_json(path) == {"a": 1}
    assert read_users_text(path) == '{"a": 1}'


def test_what_killed_writers_left_half_written_is_removed_after_a_day(tmp_path):
    now = time.time()
    old = [".a.csv.3juuu5ji.tmp", f".direction.{'0a' * 16}.tmp", ".batch-1.safetensors.tmp", ".a\nb.png.0i1srr66.tmp"]
    kept = ["a.csv", ".a.csv.tmp", "a.csv.3juuu5ji.tmp", ".hidden.tmp", "job.jsonl", ".a.csv.3juuu5ji.tmpx"]
    deep = tmp_path / "deep" / "deeper"
    deep.mkdir(parents=True)
    for name in (*old, *kept):
        (deep / name).write_text("half")
        os.utime(deep / name, (now - 90_000,) * 2)
    (deep / ".new.csv.0i1srr66.tmp").write_text("at work")
    (deep / ".link.csv.0i1srr66.tmp").symlink_to(deep / "a.csv")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / old[0]).write_text("of another")
    os.utime(outside / old[0], (now - 90_000,) * 2)
    (deep / "link").symlink_to(outside)
    assert remove_left_over([tmp_path / "deep", tmp_path / "not there"], now) == len(old)
    left = {".new.csv.0i1srr66.tmp", ".link.csv.0i1srr66.tmp", "link"}
    assert {path.name for path in deep.iterdir()} == {*kept, *left}
    assert (outside / old[0]).is_file()


def test_rubrics_and_templates_with_both_versions_of_a_merge_are_refused(tmp_path):
    path = tmp_path / "rubric.md"
    path.write_text("Judge.\r\n<<<<<<< HEAD\r\nReply A.\r\n=======\r\nReply B.\r\n>>>>>>> other\r\n")
    for read in (read_users_text, read_template):
        with pytest.raises(UserError, match=r"rubric\.md, line 2: `<<<<<<< HEAD` is a mark of an unfinished merge"):
            read(path)
    assert "line 2: `<<<<<<< HEAD`" in str(rubric_mistake(path))
    for harmless in (
        "Rules\n=======\n>>>>>>> deep quotes\n",
        "<<<<<<<{{ prompt }}>>>>>>>\n",
        "  <<<<<<< a\n  >>>>>>> b\n",
    ):
        path.write_text(harmless)
        assert read_users_text(path) == harmless


@pytest.mark.parametrize("read", [read_json, lambda path: list(read_jsonl(path)), read_users_text, read_template])
@pytest.mark.parametrize("kind", ["a pipe", "a folder", "a device"])
def test_what_is_no_regular_file_is_refused_and_never_waited_for(tmp_path, read, kind):
    path = tmp_path / "template.jinja"
    if kind == "a pipe":
        os.mkfifo(path)  # nobody writes to it: reading would never end
    elif kind == "a folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(UserError, match=r"template\.jinja is no regular file"):
        read(path)
