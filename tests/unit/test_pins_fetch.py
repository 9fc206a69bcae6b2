"""Fetching under a lock file, through the real hub library: what it spares, what it refuses, and what is continued."""

import errno
import fcntl
import json
import logging
import os
import random
import shutil
from types import SimpleNamespace

import pytest
from adapter_folders import random_adapter
from config_project import locked_repo
from hub_calls import fetched
from hub_server import HubServer, tree

from refusal_eval.config.lock_file import LockFile
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json, sha256_of_file
from refusal_eval.data import hub as hubs
from refusal_eval.data import resume
from refusal_eval.data.hub import RemoteFile, Repository
from refusal_eval.data.network import first_line, without_secrets
from refusal_eval.tools.pin.locking import lock_text

TOKEN = "hf_" + "SecretSecret" * 3
SIZE, CHUNK = 21_000_000, 10 * 1024 * 1024  # the library hands on 10 MB at a time
NOWHERE = "http://127.0.0.1:9"

MODEL = {
    "config.json": b'{"a": 1}',
    "tokenizer.json": b"{}" * 900,
    "model.safetensors": b"w" * 5000,
    "README.md": b"# x",
}
ADAPTER = {"adapter_config.json": b'{"r": 8}', "adapter_model.safetensors": b"a" * 3000}
ROWS = {"README.md": b"# x", "test.jsonl": b'{"prompt": "a"}\n', "other.txt": b"x"}


@pytest.fixture
def hub():
    with HubServer() as server:
        yield server


def locked(folder, models=(), datasets=()):
    """Write a lock file of repositories, each as (source, files); return its path."""

    def entry(source, files):
        listed = {one["path"]: one for one in tree(files, {}) if one["type"] == "file"}
        states = {
            name: RemoteFile(one["size"], one["lfs"]["oid"] if "lfs" in one else None, one["oid"]).state
            for name, one in listed.items()
        }
        return locked_repo(source["repo"], source["revision"], states)

    content = {"models": [entry(*one) for one in models], "datasets": [entry(*one) for one in datasets]}
    path = folder / "study.lock.yaml"
    path.write_text(lock_text(LockFile.model_validate({"lock_version": 1} | content), "study.yaml"))
    return str(path)


def source_of(hub, kind, name, files, **keys):
    more = {"config": None, "split": "test"} if kind == "dataset" else {}
    return {"kind": "hub", "repo": name, "revision": hub.add(kind, name, files, **keys)} | more


def got(hub, name):
    return [path.rsplit("/", 1)[1] for path in hub.requests if path.startswith("GET") and f"/{name}/resolve/" in path]


def test_with_a_lock_and_a_warm_cache_no_network_is_needed(hub, tmp_path):
    model, rows = source_of(hub, "model", "org/model", MODEL), source_of(hub, "dataset", "org/rows", ROWS)
    adapter = source_of(hub, "model", "org/adapter", ADAPTER)
    wanted = {name: MODEL[name] for name in MODEL if name != "README.md"}
    lock = locked(tmp_path, models=[(model, wanted), (adapter, ADAPTER)], datasets=[(rows, ROWS)])

    def calls(run):
        sources = {"tokenizer": model, "weights": model, "adapter": adapter, "rows": rows}
        return [(what, source, f"{run}/{what}.json", lock) for what, source in sources.items()]

    assert fetched(calls("first"), tmp_path, HF_ENDPOINT=hub.address)[0] == [None] * 4
    assert sorted(got(hub, "org/model")) == ["config.json", "model.safetensors", "tokenizer.json"]
    asked = len(hub.requests)
    # With the hub there it is not asked; it is not missed when it is gone; and HF_HUB_OFFLINE changes nothing.
    ways = [{"HF_ENDPOINT": hub.address}, {"HF_ENDPOINT": NOWHERE}, {"HF_ENDPOINT": NOWHERE, "HF_HUB_OFFLINE": "1"}]
    for number, environment in enumerate(ways):
        assert fetched(calls(f"again{number}"), tmp_path, **environment)[0] == [None] * 4
        for what in ("tokenizer", "weights", "adapter"):
            first, again = (read_json(tmp_path / run / f"{what}.json") for run in ("first", f"again{number}"))
            assert first["files"] == again["files"]
    assert len(hub.requests) == asked
    # Without the whole copy it is reported, and nothing half is taken.
    shutil.rmtree(tmp_path / "cache" / "hub" / "models--org--adapter")
    (reported,) = fetched([calls("cold")[2]], tmp_path, HF_ENDPOINT=NOWHERE, HF_HUB_OFFLINE="1")[0]
    assert "HF_HUB_OFFLINE is set: fetch it once on a machine with internet" in reported


@pytest.mark.feature("lora")
def test_what_an_adapter_of_the_hub_brings_along_is_fetched_and_mentioned(hub, tmp_path, caplog):
    from refusal_eval.features.lora.adapter import describe_adapter

    files = {path.name: path.read_bytes() for path in random_adapter(tmp_path / "adapter").iterdir()}
    files |= {
        "tokenizer_config.json": b'{"chat_template": "x"}',
        "added_tokens.json": b"{}",
        "tokenizer.json": b"{}" * 9,
    }
    files |= {"chat_template.jinja": b"x", "a/added_tokens.json": b"{}"}
    source = source_of(hub, "model", "org/adapter", files)
    assert fetched([("adapter", source, "adapter.json", None)], tmp_path, HF_ENDPOINT=hub.address)[0] == [None]
    brought = {"tokenizer_config.json", "added_tokens.json", "chat_template.jinja"}
    assert set(got(hub, "org/adapter")) == {"adapter_config.json", "adapter_model.safetensors"} | brought
    manifest = str(tmp_path / "adapter.json")
    describe_adapter("tuned", source, manifest, str(tmp_path / "cache"), logging.getLogger("adapter"))
    for words in (
        "tokenizer_config.json has a chat_template of its own",
        "brings chat_template.jinja along",
        "has added_tokens.json: tokens that its engine's tokenizer lacks are text",
    ):
        assert words in caplog.text


def test_what_is_not_what_was_locked_is_refused(hub, tmp_path):
    rewritten = source_of(hub, "model", "org/rewritten", MODEL)
    gone = source_of(hub, "model", "org/gone", MODEL)
    tampered = source_of(hub, "model", "org/tampered", MODEL)
    short = source_of(hub, "model", "org/short", ADAPTER | MODEL)
    lock = locked(tmp_path, models=[(one, MODEL) for one in (rewritten, gone, tampered, short)])
    hub.rewrite("model", "org/rewritten", rewritten["revision"], MODEL | {"model.safetensors": b"v" * 5000})
    hub.add("model", "org/gone", {"config.json": b"{}"})
    hub.rewrite("model", "org/gone", gone["revision"])
    hub.served["org/tampered/config.json"] = b'{"a": 2}'  # of the same size, and not what it lists
    calls = [("weights", one, f"{one['repo']}.json", lock) for one in (rewritten, gone, tampered)]
    reported = fetched([*calls, ("adapter", short, "a.json", lock)], tmp_path, HF_ENDPOINT=hub.address)[0]
    assert "model.safetensors is not the file that was locked, so the repository was rewritten" in reported[0]
    assert not got(hub, "org/rewritten"), "it is reported before anything is downloaded"
    assert "the lock file names it, so it was there: the history was rewritten" in reported[1]
    assert "config.json came damaged (not what the lock file says) and was removed" in reported[2]
    assert "there is no adapter_model.safetensors" in reported[3]
    assert not list((tmp_path / "org").glob("*.json")) if (tmp_path / "org").exists() else True


def test_a_file_of_a_data_set_that_the_lock_does_not_list_is_reported(hub, tmp_path):
    rows = source_of(hub, "dataset", "org/rows", ROWS | {"a.jsonl": b"{}"}) | {"split": None, "file": "a.jsonl"}
    lock = locked(tmp_path, datasets=[(rows, ROWS)])
    (reported,) = fetched([("rows", rows, "a.jsonl", lock)], tmp_path, HF_ENDPOINT=hub.address)[0]
    assert "the lock file does not list a.jsonl; run `refusal-eval pin` again" in reported


def test_a_download_that_broke_goes_on_where_it_ended(hub, tmp_path):
    noise = random.Random(0)
    shards = {f"model-0000{n}-of-00002.safetensors": noise.randbytes(SIZE) for n in (1, 2)}
    first, second = shards
    index = {"weight_map": {"a": first, "b": second}}
    files = {"config.json": b"{}", "model.safetensors.index.json": json.dumps(index).encode(), **shards}
    source = source_of(hub, "model", "org/large", files, gated=True)
    hub.elsewhere = True  # as the real hub's: a signed address on another host
    hub.tokens.add(TOKEN)
    environment = {"HF_ENDPOINT": hub.address, "HF_TOKEN": TOKEN}
    hub.cuts[second] = [CHUNK + 1_000_000]
    hub.range_faults = 3
    (reported,) = fetched([("weights", source, "weights.json", None)], tmp_path, **environment)[0]
    assert "503" in reported and not (tmp_path / "weights.json").exists()
    blobs = tmp_path / "cache" / "hub" / "models--org--large" / "blobs"
    (partial,) = blobs.glob("*.partial")
    assert partial.stat().st_size == CHUNK
    hub.requests.clear()
    hub.ranges.clear()
    (reported,), log = fetched([("weights", source, "weights.json", None)], tmp_path, **environment)
    assert reported is None and f"continuing {second} at byte {CHUNK} of {SIZE}" in log
    assert hub.ranges == [(second, CHUNK)] and not [
        one for one in hub.requests if one.startswith("GET") and first in one
    ]
    assert hub.reported_tokens == [], "the token is the hub's business only"
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert TOKEN.encode() not in written and TOKEN not in log
    assert not list(blobs.glob("*.partial"))
    manifest = read_json(tmp_path / "weights.json")
    folder = tmp_path / manifest["folder"]
    assert {name: sha256_of_file(folder / name) for name in shards} == {
        name: manifest["files"][name]["sha256"] for name in shards
    }
    assert all((folder / name).read_bytes() == content for name, content in shards.items())


def test_what_is_left_of_an_earlier_download_goes_once_the_file_is_whole(hub, tmp_path):
    source = source_of(hub, "model", "org/left", MODEL)
    call = [("weights", source, "weights.json", None)]
    assert fetched(call, tmp_path, HF_ENDPOINT=hub.address)[0] == [None]
    blobs = tmp_path / "cache" / "hub" / "models--org--left" / "blobs"
    digests = [sha256_of_file(path) for path in blobs.iterdir()]
    other = blobs / f"{'0' * 64}.partial"
    whole = [one for one in blobs.iterdir() if one.name in digests]
    assert len(whole) == 2, "large files are named by their SHA-256"
    mine, theirs = (blobs / f"{one.name}.partial" for one in whole)
    for path in (mine, theirs, other):
        path.write_bytes(b"half")
    with open(theirs, "ab") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        assert fetched(call, tmp_path, HF_ENDPOINT=hub.address)[0] == [None]
        assert not mine.exists(), "nobody needs it any more"
        assert theirs.exists(), "a job is at it"
        assert other.exists(), "another commit's may still be wanted"
        assert resume.being_written(theirs) and not resume.being_written(other)
    assert fetched(call, tmp_path, HF_ENDPOINT=hub.address)[0] == [None]
    assert [path.name for path in blobs.glob("*.partial")] == [other.name]


def test_a_large_file_comes_also_where_the_file_system_has_no_locks(tmp_path, monkeypatch, caplog):
    def no_locks(file, operation):  # as Lustre, unless it is mounted with `flock`
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(resume.fcntl, "flock", no_locks)
    large = RemoteFile(resume.LARGE, "a" * 64)
    library = SimpleNamespace(
        hf_hub_url=lambda *_, **__: "https://hub/file",
        get_hf_file_metadata=lambda url: SimpleNamespace(etag=large.sha256, location=url),
        utils=SimpleNamespace(build_hf_headers=dict),
        file_download=SimpleNamespace(http_get=lambda url, handle, **_: handle.write(b"all of it")),
    )
    place = Repository("model", "org/large", "0" * 40, str(tmp_path), logging.getLogger("test"))
    resume.fetch_large_files(place, {"a.safetensors": large}, library)
    assert (place.folder / "blobs" / ("a" * 64)).read_bytes() == b"all of it"
    assert "let no other run fetch it meanwhile" in caplog.text


def test_the_disk_is_checked_for_what_is_still_missing(tmp_path, monkeypatch):
    place = Repository("model", "org/large", "0" * 40, str(tmp_path), logging.getLogger("test"))
    wanted = {"a.safetensors": RemoteFile(10**9, "a" * 64), "b.safetensors": RemoteFile(10**9, "b" * 64)}
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(hubs.shutil, "disk_usage", lambda _: usage._replace(free=15 * 10**8))
    with pytest.raises(UserError, match=r"needs 2.0 GB, 1.5 GB are free .*set cache_dir to a larger disk"):
        hubs._check_disk(place, wanted)
    blobs = place.folder / "blobs"
    blobs.mkdir(parents=True)
    with open(blobs / ("a" * 64 + ".partial"), "wb") as handle:
        handle.truncate(9 * 10**8)  # takes no room
    assert resume.bytes_here(place, wanted["a.safetensors"]) == 9 * 10**8
    hubs._check_disk(place, wanted)
    hubs.need_disk(100, 105, "d", "five per cent more")


def test_messages_hold_no_secrets(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "plain-secret")
    error = ValueError(f"403 for https://me:pw@mirror.example.org/api with {TOKEN} and plain-secret")
    assert first_line(error) == "ValueError: 403 for https://mirror.example.org/api with *** and ***"
    assert without_secrets("a mail to me@example.org // and more") == "a mail to me@example.org // and more"
