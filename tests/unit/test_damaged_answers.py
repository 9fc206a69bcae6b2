"""Damaged and foreign files, and places that cannot be written: one sentence with the place, and nothing is left."""

import gzip
import io
import json
import os
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from answer_files import INSPECT
from program import in_process

pytestmark = pytest.mark.feature("recorded_logs")
ROW = {"prompt": "Hi?", "answer": "Hello"}
CSV = "prompt,answer\nHi?,Hello\n"


def log(**header: Any) -> dict[str, str]:
    """Return the members of a log of inspect, its header changed."""
    whole = json.loads((INSPECT / "acme_open.json").read_text())
    samples = whole.pop("samples")
    members = {f"samples/{one['id']}_epoch_{one['epoch']}.json": json.dumps(one) for one in samples}
    return {"header.json": json.dumps(whole | header), **members}


def packed(members: dict[str, str | bytes]) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return held.getvalue()


def without_head() -> bytes:
    return packed({name: data for name, data in log().items() if name != "header.json"})


def nested() -> bytes:
    return packed({"header.json": log()["header.json"], "samples/a_epoch_1.json": packed(dict(log()))})


def parquet(**columns: Any) -> bytes:
    held = io.BytesIO()
    pq.write_table(pa.table(columns), held)
    return held.getvalue()


def lines(*rows: dict[str, Any]) -> bytes:
    return "".join(json.dumps(ROW | row) + "\n" for row in rows).encode()


def text(row: str) -> bytes:
    return f"{json.dumps(ROW)}\n{row}\n".encode()


TURNS = [
    {"role": "user", "content": "Hi?"},
    {"role": "assistant", "content": "Yes"},
    {"role": "user", "content": "So?"},
]
FIRST = {"prompt_id": "p", "turn": 0}
LATER = {"prompt": None, "prompt_id": "p", "turn": 1, "messages": TURNS}
DAMAGED: dict[str, tuple[Callable[[], bytes], str]] = {
    "no_head.eval": (without_head, "is no log of inspect: it has neither header.json nor _journal/start.json"),
    "version.eval": (lambda: packed(dict(log(version=99))), "is a log of version 99, and version 2 is read"),
    "nested.eval": (nested, "member samples/a_epoch_1.json: cannot be read"),
    "list_sample.eval": (
        lambda: packed({"header.json": log()["header.json"], "samples/a_epoch_1.json": "[]"}),
        "member samples/a_epoch_1.json: must be a JSON object, not a list",
    ),
    "lists.parquet": (lambda: parquet(prompt=["a"], answer=[["x", "y"]]), "row 1: `answer` is ['x', 'y']"),
    "numbers.parquet": (lambda: parquet(prompt=[1], answer=["x"]), "row 1: `prompt` is 1"),
    "bytes.parquet": (
        lambda: parquet(prompt=["a"], answer=[b"\xff"]),
        "has no `answer`: it is null, or no text",
    ),
    "fake.parquet": (lambda: b"PAR1 nothing PAR1", "is not a valid Parquet file"),
    "utf16.csv": (lambda: CSV.encode("utf-16"), "is UTF-16 text; save it as UTF-8"),
    "utf16.jsonl": (lambda: lines({}).decode().encode("utf-16"), "is UTF-16 text; save it as UTF-8"),
    "latin.csv": (lambda: "prompt,answer\nHé?,a\n".encode("latin-1"), "at byte 15); save it as UTF-8\n"),
    "open_quote.csv": (lambda: b'prompt,answer\n"Hi?,Hello\n', "line 2: is not valid CSV"),
    "two_headers.csv": (lambda: b"prompt,answer,answer\na,b,c\n", "two columns are called `answer`"),
    "nul.csv": (lambda: b"prompt,answer\nHi?,He\0llo\n", "row 1: holds a NUL character"),
    "nul.jsonl": (lambda: b'{"prompt": "Hi?", "answer": "He\0llo"}\n', "line 1: is not valid JSON: Invalid control"),
    "nan.jsonl": (
        lambda: text('{"prompt": "a", "answer": "b", "answer_logprob": NaN}'),
        "line 2: `answer_logprob` is nan: input should be a finite number",
    ),
    "digits.jsonl": (
        lambda: text('{"prompt": "a", "sample": ' + "9" * 5000 + "}"),
        "line 2: is not valid JSON: a number has",
    ),
    "infinite.jsonl": (lambda: text('{"prompt": "a", "answer": "b", "sample": 1e999}'), "line 2: `sample` is inf"),
    "twice.jsonl": (
        lambda: text('{"prompt": "a", "answer": "b", "answer": "c"}'),
        'line 2: the key "answer" stands twice',
    ),
    "half_pair.jsonl": (lambda: text('{"prompt": "a", "answer": "\\ud83d"}'), "line 2: holds half of a surrogate pair"),
    "deep.jsonl": (lambda: text("[" * 100_000), "line 2: is nested too deeply"),
    "packed.jsonl": (lambda: gzip.compress(lines({})), "is packed by gzip; unpack it"),
    "archive.csv": (lambda: packed({"a.csv": CSV}), "is a zip archive; unpack it"),
    "no_history.jsonl": (lambda: lines({"turn": 1}), "line 1: a later `turn` needs `messages`"),
    "no_id.jsonl": (lambda: lines({**LATER, "prompt_id": None}), "line 1: a later `turn` needs `prompt_id`"),
    "wrong_turn.jsonl": (
        lambda: lines({**LATER, "turn": 2}),
        "line 1: its `turn` is 2, and `messages` has 1 of the user before the last",
    ),
    "other_script.jsonl": (
        lambda: lines({**FIRST, "prompt": "Bye?"}, LATER),
        "line 1: asks something else than other_script.jsonl, line 2, which is another turn of the dialogue `p`",
    ),
    "other_reply.jsonl": (
        lambda: lines({**FIRST, "answer": "No"}, LATER),
        "line 2: its history has another reply to turn 0 than other_reply.jsonl, line 1",
    ),
}


def refused(file: Path, folder: Path, *options: str) -> str:
    """Judge a file, which must fail with one sentence and leave nothing; return that sentence."""
    folder.mkdir(exist_ok=True)
    run = in_process(
        "judge", str(file), "--judge", "keyword", "--no-run", *(options or ("--into", "study")), cwd=folder
    )
    assert run.returncode == 1 and run.stdout == "" and len(run.stderr.splitlines()) == 1, run.stderr
    assert list(folder.iterdir()) == []
    return run.stderr


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_gives_one_sentence_with_its_place(tmp_path: Path, name: str) -> None:
    made, said = DAMAGED[name]
    (tmp_path / name).write_bytes(made())
    found = refused(tmp_path / name, tmp_path / "run")
    assert name in found and said in found


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    assert "pipe.jsonl is no regular file" in refused(tmp_path / "pipe.jsonl", tmp_path / "run")
    for name, target in (("self.jsonl", "self.jsonl"), ("dangling.eval", "nothing")):
        (tmp_path / name).symlink_to(target)
        assert f"{name} is a link to a file that is not there" in refused(tmp_path / name, tmp_path / "run")
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "folder.jsonl" / "again").symlink_to("..")
    found = refused(tmp_path / "folder.jsonl", tmp_path / "run")
    assert "folder.jsonl is a folder without answers.parquet, *.eval, *.json or samples_*.jsonl" in found


def test_a_byte_order_mark_is_no_damage(tmp_path: Path) -> None:
    (tmp_path / "marked.csv").write_text("\ufeff" + CSV, encoding="utf-8")
    run = in_process("judge", "marked.csv", "--judge", "keyword", "--no-run", cwd=tmp_path)
    assert run.returncode == 0 and "Read 1 answer (1 model, 1 prompt" in run.stdout


def test_a_place_for_a_folder_that_is_none_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines({}))
    file, run = tmp_path / "a.jsonl", tmp_path / "run"
    assert "a.jsonl/x cannot be written: File exists" in refused(file, run, "--into", f"{file}/x")
    assert "cannot be written: File name too long" in refused(file, run, "--into", "x" * 300)


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mount small file systems in memory, which takes root."""
    made: list[Path] = []

    def mount(options: str) -> Path:
        place = tmp_path / f"disk-{len(made)}"
        place.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], capture_output=True).returncode:
            pytest.skip("no file system can be mounted here")
        made.append(place)
        return place

    try:
        yield mount
    finally:
        for place in made:
            subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_and_a_read_only_one_leave_nothing(tmp_path: Path, mounted: Callable[[str], Path]) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(*({"prompt": f"{n}?", "answer": "x" * 500} for n in range(300))))
    full, frozen = mounted("size=64k"), mounted("ro,size=64k")
    for place, said in ((full, "No space left on device; nothing of it is left"), (frozen, "Read-only file system")):
        found = refused(tmp_path / "a.jsonl", tmp_path / "run", "--into", str(place / "study"))
        assert f"{place}/study cannot be written: {said}" in found and list(place.iterdir()) == []
