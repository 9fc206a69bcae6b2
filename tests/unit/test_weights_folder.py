"""Folders of weights: fingerprints, manifests, and what an engine's file says."""

import itertools
import json
import os
import time

import pytest
from engine_entries import engine_of

from refusal_eval.core.errors import UserError
from refusal_eval.weights import fingerprint
from refusal_eval.weights.engine_file import describe_engine, model_config
from refusal_eval.weights.fingerprint import file_states, folder_sha256, model_files
from refusal_eval.weights.weights_manifest import manifest_folder, write_manifest

OLD = time.time_ns() - 10**11


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(fingerprint, "RACY_SECONDS", 0.0)
    made = tmp_path / "model"
    (made / "sub").mkdir(parents=True)
    (made / ".git").mkdir()
    names = ["config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja", "sub/extra.json"]
    for name in [*names, "README.md", "readme.txt", "LICENSE.txt", "notes.md", ".hidden.json", ".git/config.json"]:
        (made / name).write_text('{"max_position_embeddings": 64}' if name == "config.json" else name)
        os.utime(made / name, ns=(OLD, OLD))
    return made


def test_only_files_that_define_the_model_count(folder, tmp_path):
    wanted = ["chat_template.jinja", "config.json", "model.safetensors", "sub/extra.json", "tokenizer.json"]
    assert model_files(folder) == wanted
    before = folder_sha256(folder, tmp_path)
    (folder / "README.md").write_text("other")
    assert folder_sha256(folder, tmp_path) == before == folder_sha256(folder, tmp_path / "empty cache")


def test_the_fingerprint_is_frozen_and_does_not_depend_on_the_place(folder, tmp_path):
    frozen = "938b8b8c448499ad67ec4cb3e5d7ae80bb0dbda92fb5e1e40dbdb520a60fcae4"
    assert folder_sha256(folder, tmp_path) == frozen
    assert folder_sha256(folder.rename(tmp_path / "elsewhere"), tmp_path) == frozen


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "chat_template.jinja"])
def test_other_content_of_the_same_size_under_the_same_path_gives_another_fingerprint(folder, tmp_path, name):
    before, state = folder_sha256(folder, tmp_path), file_states(folder)
    content = (folder / name).read_text()
    (folder / name).write_text(content.upper())
    assert folder_sha256(folder, tmp_path) != before
    assert [new[0] for new, old in zip(file_states(folder), state, strict=True) if new != old] == [name]
    # Even when the time of modification is made the old one, as `cp --preserve` does.
    os.utime(folder / name, ns=(OLD, OLD))
    assert folder_sha256(folder, tmp_path) != before
    (folder / name).write_text(content)
    assert folder_sha256(folder, tmp_path) == before


def test_a_renamed_or_added_file_gives_another_fingerprint(folder, tmp_path):
    before = folder_sha256(folder, tmp_path)
    (folder / "tokenizer.json").rename(folder / "tokenizers.json")
    assert folder_sha256(folder, tmp_path) != before


def test_files_that_change_the_fingerprint_are_named_in_the_log(folder, tmp_path, caplog):
    """Results that an evaluation wrote into the folder make all stored responses unreachable."""
    folder_sha256(folder, tmp_path)
    os.utime(folder / "tokenizer.json")
    folder_sha256(folder, tmp_path)
    assert caplog.text == ""
    (folder / "eval").mkdir()
    (folder / "eval" / "results.json").write_text("{}")
    (folder / "config.json").write_text("{}")
    folder_sha256(folder, tmp_path)
    assert "model: files added, changed or removed: config.json, eval/results.json; its requests get" in caplog.text


@pytest.fixture
def read(monkeypatch):
    """Return the names of the files that are read from now on."""
    names, original = [], fingerprint.sha256_of_file
    monkeypatch.setattr(fingerprint, "sha256_of_file", lambda path: names.append(path.name) or original(path))
    return names


def test_unchanged_files_are_not_read_again(folder, tmp_path, read):
    first = folder_sha256(folder, tmp_path)
    assert len(read) == 5
    assert folder_sha256(folder, tmp_path) == first
    assert len(read) == 5
    (folder / "config.json").write_text("{}")
    folder_sha256(folder, tmp_path)
    assert read[5:] == ["config.json"]


def test_a_file_that_has_just_changed_is_read_again(folder, tmp_path, monkeypatch, read):
    # Within one tick of the clock a second change would leave no trace in the times.
    monkeypatch.setattr(fingerprint, "RACY_SECONDS", 3600.0)
    assert folder_sha256(folder, tmp_path) == folder_sha256(folder, tmp_path)
    assert len(read) == 10


def test_a_damaged_memory_never_gives_another_fingerprint(folder, tmp_path):
    before = folder_sha256(folder, tmp_path)
    (memory,) = (tmp_path / "fingerprints").iterdir()
    whole = memory.read_bytes()
    for place, digit in zip(range(0, len(whole), 2), itertools.cycle([b"0", b"7", b"f", b'"', b"0"])):
        memory.write_bytes(whole[:place] + digit + whole[place + 1 :])
        assert folder_sha256(folder, tmp_path) == before, (place, digit)
    values = [None, 3, "x", [], {"files": 3}, {"files": {"config.json": 3}, "sha256": None}, {"config.json": {}}]
    for text in ("{", *map(json.dumps, values)):
        memory.write_text(text)
        assert folder_sha256(folder, tmp_path) == before


def test_links_that_lead_back_are_followed_no_further(folder, tmp_path):
    before = folder_sha256(folder, tmp_path)
    for name in ("a", "b", "c"):
        (folder / name).symlink_to(".")
        (folder / "sub" / name).symlink_to("..")
    started = time.monotonic()
    assert folder_sha256(folder, tmp_path) == before
    assert time.monotonic() - started < 5


def test_a_folder_that_two_links_lead_to_counts_twice(folder, tmp_path):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "x.json").write_text("{}")
    for name in ("one", "two"):
        (folder / name).symlink_to(tmp_path / "shared")
    assert {"one/x.json", "two/x.json"} <= set(model_files(folder))


def test_what_is_no_file_in_a_folder_of_weights_is_reported(folder, tmp_path):
    # Nobody writes to the pipe: reading would never end.
    for make in (lambda path: path.symlink_to("nowhere"), os.mkfifo):
        make(folder / "x.json")
        with pytest.raises(UserError, match=r"model/x\.json is no regular file"):
            folder_sha256(folder, tmp_path)
        (folder / "x.json").unlink()
    with open(os.fsencode(folder) + b"/caf\xe9.json", "w") as handle:
        handle.write("{}")
    with pytest.raises(UserError, match=r"model/caf.*json.* is not UTF-8"):
        folder_sha256(folder, tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", r"config\.json: "),
        ("3", r"config\.json: "),
        ('{"text_config": "x"}', r"config\.json: text_config: "),
        ("[" * 100_000, r"config\.json is not valid JSON"),
        ('{"n_ctx": 1' + "0" * 5000 + "}", r"config\.json is not valid JSON"),
    ],
)
def test_a_damaged_config_of_a_model_is_reported_with_its_field(folder, text, message):
    (folder / "config.json").write_text(text)
    with pytest.raises(UserError, match=message):
        model_config(folder)


def test_folders_that_are_no_models_are_reported(folder, tmp_path):
    with pytest.raises(UserError, match=r"there is no folder .*nowhere"):
        folder_sha256(tmp_path / "nowhere", tmp_path)
    (folder / "model.safetensors").rename(folder / "model.old")
    with pytest.raises(UserError, match=r"model holds no weights \(\*.safetensors\)"):
        folder_sha256(folder, tmp_path)
    (folder / "model.old").rename(folder / "model.safetensors")
    (folder / "config.json").unlink()
    with pytest.raises(UserError, match=r"model has no config\.json"):
        folder_sha256(folder, tmp_path)


SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
INDEX = json.dumps({"weight_map": {"a": SHARDS[0], "b": SHARDS[1]}})


@pytest.mark.parametrize(
    ("added", "message"),
    [
        ({"model.safetensors.index.json": INDEX} | dict.fromkeys(SHARDS, "base"), f"{SHARDS[0]} and model.safetensors"),
        ({"consolidated.safetensors": "base"}, "model.safetensors and consolidated.safetensors"),
        ({"model_old.safetensors": "base"}, "model.safetensors and model_old.safetensors: remove one"),
        ({"model.safetensors.index.json": INDEX}, f"names {SHARDS[0]}, which is not there; if model.safetensors holds"),
    ],
)
def test_weights_that_were_saved_into_a_copy_of_others_are_refused(folder, tmp_path, added, message):
    """vLLM would serve the old ones, or stop once it has its GPUs; activations would be those of the new ones."""
    for name, text in added.items():
        (folder / name).write_text(text)
    with pytest.raises(UserError, match=message):
        folder_sha256(folder, tmp_path)


@pytest.mark.parametrize("kept", [(*SHARDS, "model.safetensors.index.json"), ("consolidated.safetensors",)])
def test_one_set_of_weights_may_have_others_in_subfolders(folder, tmp_path, kept):
    (folder / "model.safetensors").rename(folder / "sub" / "model.safetensors")
    for name in kept:
        (folder / name).write_text(INDEX)
    assert folder_sha256(folder, tmp_path)


def test_a_manifest_stands_for_whole_copies_only(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    manifest = "cache/weights/x/weights.json"
    write_manifest(manifest, folder, ["config.json", "model.safetensors"], {"kind": "hub"}, {"config.json": "known"})
    written = json.loads((tmp_path / manifest).read_text())
    assert written["folder"] == "../../../model"
    assert written["files"]["config.json"] == {"size": 31, "sha256": "known"}
    assert str(manifest_folder(manifest)) == "model"
    (folder / "model.safetensors").write_text("short")
    size = r"model/model\.safetensors has another size .*; delete cache/weights/x/weights\.json"
    with pytest.raises(UserError, match=size):
        manifest_folder(manifest)
    (folder / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"model/model\.safetensors is missing"):
        manifest_folder(manifest)
    with pytest.raises(UserError, match="there is no manifest"):
        manifest_folder("nowhere.json")


def test_what_an_engine_is_described_by(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    weights, engine = {"kind": "folder", "path": "model"}, engine_of({"dtype": "float32", "max_model_len": 64})
    described = describe_engine("e", engine, weights, None, "cache")
    assert described["engine"] == "e"
    assert (described["folder"], described["tokenizer_folder"]) == ("model", "model")
    assert described["max_position_embeddings"] == 64
    assert described["identity"] == {"weights": {"folder_sha256": folder_sha256("model", "cache")}, "dtype": "float32"}
    (folder / "config.json").write_text(
        '{"original_max_position_embeddings": 64, "rope_scaling": {"type": "longrope"}}'
    )
    assert "long_rope" not in describe_engine("e", engine, weights, None, "cache")["identity"]
    longer = engine_of({"dtype": "float32", "max_model_len": 65})
    assert describe_engine("e", longer, weights, None, "cache")["identity"]["long_rope"] is True
    write_manifest("m/tokenizer_manifest.json", folder, ["config.json"], {})
    hub = {"kind": "hub", "repo": "a/b", "revision": "0" * 40}
    assert describe_engine("e", engine, hub, "m/tokenizer_manifest.json", "cache")["folder"] == "model"
    (folder / "config.json").write_text('{"text_config": {"n_positions": 7}}')
    assert describe_engine("e", engine, weights, None, "cache")["max_position_embeddings"] == 7
    (folder / "config.json").write_text("{}")
    assert "max_position_embeddings" not in describe_engine("e", engine, weights, None, "cache")
