"""Files that are read and written: what is damaged is told with its name and line, and never with a traceback."""

import errno
import os

import pytest

from refusal_eval.core import files
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import BadFile, read_json, read_jsonl, write_json, write_jsonl, written_whole
from refusal_eval.core.jsonl import read_rows

DAMAGES = {
    "no JSON": b'{"a": 1',
    "nested too deeply": b"[" * 100_000 + b"]" * 100_000,
    "a number of 5,000 digits": b"9" * 5000,
    "bytes that are no UTF-8": b'{"a": "\xff"}',
    "half a character": b'{"a": "\xe2\x82"}',
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_json_that_cannot_be_read_is_told_with_its_file(tmp_path, damage):
    (tmp_path / "a.json").write_bytes(damage)
    with pytest.raises(BadFile, match=r"a\.json is not valid JSON"):
        read_json(tmp_path / "a.json")


@pytest.mark.parametrize("read", [read_jsonl, read_rows])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_line_that_cannot_be_read_is_told_with_its_number(tmp_path, damage, read):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\n' * 3 + damage + b'\n{"a": 1}\n')
    with pytest.raises(BadFile, match=r"a\.jsonl, line 4: not valid JSON"):
        list(read(path))


def test_half_of_a_surrogate_pair_is_written_as_a_replacement_character(tmp_path):
    write_json(tmp_path / "a.json", {"text": "a \ud83d b"})
    write_jsonl(tmp_path / "a.jsonl", [{"text": "\udc00\ud83d"}, {"text": "\U0001f600"}])
    assert read_json(tmp_path / "a.json") == {"text": "a \ufffd b"}
    assert list(read_jsonl(tmp_path / "a.jsonl")) == [{"text": "\ufffd\ufffd"}, {"text": "\U0001f600"}]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_a_full_disk_is_told_with_the_file_and_leaves_nothing_behind(tmp_path, monkeypatch, number, where):
    def full(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files.os, where, full)
    with pytest.raises(
        UserError,
        match=r"scores\.json: No space left on device; free space and run again|"
        r"scores\.json: Disk quota exceeded; free space and run again",
    ) as told:
        write_json(tmp_path / "scores.json", {})
    assert isinstance(told.value, OSError)
    assert list(tmp_path.iterdir()) == []


def test_other_faults_of_a_disk_stay_what_they_are(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError), written_whole(tmp_path / "folder") as stream:
        stream.write("x")
