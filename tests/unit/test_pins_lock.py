"""Lock files: how open pins are filled from one, what differs from it, what a broken one says, and its text."""

import copy

import pytest
import yaml
from config_project import CATALOGUE, COMMIT, SHA256, STUDY, changed, locked_repo

from refusal_eval.config.load_study import load_study
from refusal_eval.config.lock_file import LockFile, lock_path, read_lock
from refusal_eval.core.errors import UserError
from refusal_eval.data.hub import RemoteFile, locked_files
from refusal_eval.tools.pin.hub_questions import licence_tag
from refusal_eval.tools.pin.locking import differences, licence_of, lock_file, lock_text, not_taken, rewritten
from refusal_eval.tools.pin.pin_needs import needs_of, wanted_files

OTHER = "f" * 40
LICENCE = {"hub": "mit", "entry": "MIT", "agrees": True}
URL = {"kind": "url", "url": f"https://example.org/{COMMIT}/rows.csv", "sha256": None}


def repo(name="owner/model", commit=OTHER, by="lock", **keys):
    files = {"config.json": "2 git:" + "1" * 40, "model.safetensors": "5000 sha256:" + SHA256}
    return locked_repo(name, commit, files, pinned_by=by, licence=LICENCE) | keys


def lock(**lists):
    return {"lock_version": 1} | lists


@pytest.fixture
def open_project(project):
    """A project in which weights, adapter, rows and gold leave their pins open."""
    catalogue = copy.deepcopy(CATALOGUE)
    catalogue["engines"]["hub-engine"]["weights"]["revision"] = None
    catalogue["models"]["tuned"]["lora"]["revision"] = None
    splits = catalogue["datasets"]["family"]["splits"]
    splits["hub-rows"] |= {"unverified": ["the commit"]}
    splits["hub-rows"]["source"]["revision"] = None
    splits["url-rows"] |= {"unverified": ["the hash"], "source": URL}
    catalogue["gold"]["people"]["source"] = {
        "kind": "hub",
        "repo": "owner/gold",
        "revision": None,
        "file": "gold.csv",
    }
    project.write("config/catalogue/base.yaml", catalogue)
    return project


OPEN_STUDY = STUDY | {"models": ["plain", "tuned"], "splits": ["hub-rows", "url-rows"], "gold": ["people"]}
WHOLE = lock(
    models=[repo(), repo("owner/adapter", "a" * 40)],
    datasets=[repo("owner/data", "b" * 40), repo("owner/gold", "c" * 40, files={"gold.csv": "2 git:" + "1" * 40})],
    urls=[{"url": URL["url"], "sha256": SHA256, "size": 9, "pinned_by": "lock"}],
)


# ---------------------------------------------------------------- open pins


def test_each_open_pin_is_refused_with_its_place_and_the_command(open_project):
    reported = open_project.mistakes(OPEN_STUDY, "my_study.yaml")
    keys = ["gold.people.source.revision", "engines.hub-engine.weights.revision", "models.tuned.lora.revision"]
    keys += ["datasets.family.splits.hub-rows.source.revision", "datasets.family.splits.url-rows.source.sha256"]
    assert len(reported) == len(keys)
    for key in keys:
        (line,) = [line for line in reported if f": {key}: " in line]
        assert line.startswith("config/catalogue/base.yaml:")
        assert "is not known yet" in line and "run `refusal-eval pin my_study.yaml`" in line


def test_an_engine_that_is_off_is_pinned_too_where_its_model_is_allowed(open_project):
    engine = CATALOGUE["engines"]["hub-engine"] | {"enabled": False, "reason": "not free"}
    engine |= {"weights": {"kind": "hub", "repo": "owner/model", "revision": None}}
    open_project.write("config/catalogue/base.yaml", changed(CATALOGUE, ("engines", "hub-engine"), engine))
    (reported,) = open_project.mistakes(STUDY)
    assert "`plain` is off by default" in reported
    (reported,) = open_project.mistakes(STUDY | {"allow": ["plain"]})
    assert "engines.hub-engine.weights.revision: the commit hash is not known yet" in reported


def test_what_only_looks_may_leave_them_open(open_project):
    open_project.write("study.yaml", OPEN_STUDY)
    config = load_study(OPEN_STUDY, "study.yaml", ".", open_pins=True)
    assert config["engine_entries"]["hub-engine"]["weights"]["revision"] is None
    assert config["split_entries"]["url-rows"]["source"]["sha256"] is None
    assert "lock" not in config


def test_a_lock_file_fills_them(open_project):
    open_project.write("study.lock.yaml", WHOLE)
    config = open_project.load(OPEN_STUDY)
    assert config["engine_entries"]["hub-engine"]["weights"]["revision"] == OTHER
    assert config["model_entries"]["tuned"]["lora"]["revision"] == "a" * 40
    assert config["split_entries"]["hub-rows"]["source"]["revision"] == "b" * 40
    assert config["split_entries"]["url-rows"]["source"]["sha256"] == SHA256
    assert config["gold_entries"]["people"]["source"]["revision"] == "c" * 40
    assert config["lock"] == "study.lock.yaml"
    # Files are compared with it when they are fetched.
    weights = config["engine_entries"]["hub-engine"]["weights"]
    files = locked_files(config, "model", weights)
    assert files["model.safetensors"] == RemoteFile(5000, SHA256) and files["config.json"].git == "1" * 40
    assert locked_files(config, "dataset", weights) is None
    assert locked_files(config, "model", weights | {"revision": COMMIT}) is None


def test_what_a_lock_lacks_stays_open_and_what_nobody_uses_is_ignored(open_project):
    other = [repo("owner/elsewhere"), repo("owner/adapter", "a" * 40)]
    open_project.write("study.lock.yaml", WHOLE | {"urls": [], "models": other})
    weights, url = sorted(open_project.mistakes(OPEN_STUDY), key=lambda reported: "url-rows" in reported)
    assert "url-rows.source.sha256: the SHA-256 is not known yet" in url
    assert f"(study.lock.yaml has no `{URL['url']}` under `urls`)" in url
    assert weights.startswith("config/catalogue/base.yaml:") and "engines.hub-engine.weights.revision" in weights
    assert "(study.lock.yaml has no `owner/model` under `models`)" in weights
    assert "refusal-eval pin study.yaml" in weights


def test_of_several_commits_an_open_pin_takes_the_one_that_the_lock_chose(open_project):
    entries = [repo(by="entry", commit=COMMIT), repo(by="lock")]
    open_project.write("study.lock.yaml", WHOLE | {"models": [*entries, repo("owner/adapter")]})
    config = open_project.load(OPEN_STUDY)
    assert config["engine_entries"]["hub-engine"]["weights"]["revision"] == OTHER
    two = [repo(by="entry", commit=COMMIT), repo(by="entry")]
    open_project.write("study.lock.yaml", WHOLE | {"models": [*two, repo("owner/adapter")]})
    (reported,) = open_project.mistakes(OPEN_STUDY)
    assert "hub-engine.weights.revision: the commit hash is not known yet" in reported
    assert "(study.lock.yaml has 2 of `owner/model` under `models`, none of them with `pinned_by: lock`)" in reported


def test_an_entry_with_another_pin_than_the_lock_names_both_places(project):
    project.write("study.lock.yaml", "lock_version: 1\nmodels:\n" + yaml.safe_dump([repo()]))
    (reported,) = project.mistakes()
    assert reported.startswith("config/catalogue/base.yaml:6: engines.hub-engine.weights.revision: is " + COMMIT)
    lines = (project.folder / "study.lock.yaml").read_text().splitlines()
    place = next(number for number, line in enumerate(lines, 1) if "commit:" in line)
    assert f"study.lock.yaml:{place} has {OTHER}" in reported
    assert "run `refusal-eval pin study.yaml` to lock what the entry says" in reported
    project.write("study.lock.yaml", lock(models=[repo(commit=COMMIT, by="entry")]))
    assert project.mistakes() == []


def test_a_file_that_was_not_locked_is_reported_before_anything_is_fetched(open_project):
    datasets = [repo("owner/data", "b" * 40), repo("owner/gold", "c" * 40)]
    path = open_project.write("study.lock.yaml", WHOLE | {"datasets": datasets})
    (reported,) = open_project.mistakes(OPEN_STUDY)
    assert reported.startswith("config/catalogue/base.yaml:")
    assert ": gold.people.source.file: `gold.csv` is not among the files" in reported
    line = next(n for n, text in enumerate(path.read_text().splitlines(), 1) if "c" * 40 in text)
    assert f"that study.lock.yaml:{line} locks: run `refusal-eval pin study.yaml`" in reported


def test_a_split_of_a_repository_that_was_not_locked_whole_is_reported(open_project):
    """One file of it was pinned; the others are there, and would not be read."""
    one = {"data/train-00000-of-00002.csv": "2 git:" + "1" * 40}
    gold = WHOLE["datasets"][1]
    path = open_project.write("study.lock.yaml", WHOLE | {"datasets": [repo("owner/data", "b" * 40, files=one), gold]})
    (reported,) = open_project.mistakes(OPEN_STUDY)
    line = next(n for n, text in enumerate(path.read_text().splitlines(), 1) if "b" * 40 in text)
    assert "splits.hub-rows.source: a split takes all files of its repository, and " in reported
    assert f"study.lock.yaml:{line} does not lock them all: run `refusal-eval pin study.yaml`" in reported
    # A lock file that does not say it may be older: what is no file of rows was locked with all others only.
    for files, said in ((one, {"whole": True}), (one | {"README.md": "2 git:" + "1" * 40}, {})):
        whole = repo("owner/data", "b" * 40, files=files, **said)
        open_project.write("study.lock.yaml", WHOLE | {"datasets": [whole, gold]})
        assert open_project.mistakes(OPEN_STUDY) == []


def test_a_study_does_not_name_its_lock_file(project):
    (reported,) = project.mistakes(STUDY | {"lock": "locks/mine.yaml"})
    assert reported.startswith(
        "study.yaml:9: lock: unknown key `lock`: the lock file of my_study.yaml is my_study.lock"
    )


def open_needs(project):
    project.write("study.yaml", OPEN_STUDY)
    return needs_of(load_study(OPEN_STUDY, "study.yaml", ".", open_pins=True, use_lock=False))


def test_what_of_a_lock_the_study_does_not_take_is_listed(open_project):
    needs = open_needs(open_project)
    assert not_taken(parsed(WHOLE), needs) == []
    url = {"url": "https://example.org/other.csv", "sha256": SHA256, "size": 9, "pinned_by": "lock"}
    more = parsed(WHOLE | {"models": [*WHOLE["models"], repo("owner/data")], "urls": [*WHOLE["urls"], url]})
    assert not_taken(more, needs) == [url["url"], "owner/data"], "a model is no data set"


def test_a_lock_file_is_no_study_and_belongs_to_one(project):
    assert lock_path("config/my_study.yml") == "config/my_study.lock.yaml"
    project.write("other.lock.yaml", {"study": "small"})
    assert project.mistakes() == [], "a lock of another study is none of its business"


# ---------------------------------------------------------------- broken lock files


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lock_version: 1\nmodels: [\n", "study.lock.yaml:3: is not valid YAML"),
        ("<<<<<<< HEAD\nlock_version: 1\n", "study.lock.yaml:"),
        ("", "study.lock.yaml: lock_version: this key is missing"),
        ("- 1\n", "study.lock.yaml:1: must be a mapping"),
        ("lock_version: 2\n", "study.lock.yaml:1: lock_version: "),
        (changed(lock(models=[repo()]), ("models", 0, "commit"), "main"), "models[0].commit: 'main' is not a full"),
        (changed(lock(models=[repo()]), ("models", 0, "comit"), "x"), "models[0].comit: unknown key"),
        (changed(lock(models=[repo()]), ("models", 0, "files", "config.json"), "2"), "must be a size in bytes and"),
        (lock(models=[repo(), repo()]), "`owner/model` stands twice"),
        (lock(urls=[{"url": URL["url"], "sha256": "0", "size": 1, "pinned_by": "lock"}]), "urls[0].sha256: '0' is"),
    ],
)
def test_a_broken_lock_file_is_one_clear_message(open_project, text, message):
    open_project.write("study.lock.yaml", text)
    (reported,) = open_project.mistakes(OPEN_STUDY)
    assert reported.startswith("study.lock.yaml") and message in reported
    assert "Runs obey this file" in reported and "deleted" in reported


def test_a_lock_that_changes_while_a_study_runs_is_reported(tmp_path):
    config = {"lock": str(tmp_path / "gone.lock.yaml")}
    with pytest.raises(UserError, match="changed while the study ran"):
        locked_files(config, "model", {"kind": "hub", "repo": "a/b", "revision": COMMIT})


# ---------------------------------------------------------------- what a study needs


def test_needs_are_reported_once_for_each_pin(open_project):
    needs = open_needs(open_project)
    assert [(need.kind, need.name, need.pin, need.wants) for need in needs] == [
        ("dataset", "owner/data", None, ("all files",)),
        ("dataset", "owner/gold", None, ("gold.csv",)),
        ("model", "owner/adapter", None, ("adapter",)),
        ("model", "owner/model", None, ("weights",)),
        ("url", URL["url"], None, ("all files",)),
    ]
    assert needs[3].used_by == ("engines.hub-engine",)
    with pytest.raises(UserError, match=r"data set owner/gold: has no file `gold.csv`; did you mean `gold2.csv`"):
        wanted_files(needs[1], {"gold2.csv": RemoteFile(1, None, "0" * 40)})
    with pytest.raises(UserError, match=r"model owner/model: there are no \*\.safetensors files"):
        wanted_files(needs[3], {"config.json": RemoteFile(1, None, "0" * 40)})


@pytest.mark.parametrize(
    ("hub", "entries", "agrees"),
    [
        ("mit", ["MIT"], True),
        ("apache-2.0", ["Apache 2.0 (stated in the text)", "apache-2.0"], True),
        ("apache-2.0", ["CC-BY-NC-SA-4.0 (the hub's tag says Apache-2.0)"], False),
        ("mit", ["MIT", "CC-BY-4.0"], False),
        (None, ["MIT"], None),
        ("mit", ["none stated for this copy"], None),
        ("mit", [], None),
    ],
)
def test_licences_are_compared_without_spelling(hub, entries, agrees):
    assert licence_of(hub, entries).agrees is agrees


def test_the_licence_is_the_hubs_tag():
    class Info:
        tags = ("region:us", "license:other")
        card_data = type("Card", (), {"license_name": "qwen"})

    assert licence_tag(Info) == "other (qwen)"
    Info.tags = ()
    assert licence_tag(Info) is None


# ---------------------------------------------------------------- text and differences


def test_the_text_reads_back_as_it_was_whatever_files_are_called(tmp_path):
    names = ["plain.json", "a b: c#.txt", "no", "1e5", "data/ä'\"x.csv", "x{y}, z", "-dash", "\u2028"]
    files = {name: "1 git:" + "0" * 40 for name in names}
    licence = {"hub": "other (a, b)", "entry": "MIT: {x}", "agrees": None}
    digits = repo("1owner/2", "1" * 40, files=files, licence=licence)
    made = LockFile.model_validate(lock(models=[digits], datasets=[digits | {"whole": True}], urls=WHOLE["urls"]))
    text = lock_text(made, "my study.yaml")
    (tmp_path / "x.lock.yaml").write_text(text, encoding="utf-8")
    problems = []
    found = read_lock(str(tmp_path / "x.lock.yaml"), problems)
    assert problems == [] and found.content == made
    assert lock_text(found.content, "my study.yaml") == text


def parsed(value):
    return LockFile.model_validate(value)


def test_one_repository_for_two_uses_is_one_entry():
    adapter = repo(by="entry", files={"adapter_config.json": "1 git:" + "0" * 40})
    made = lock_file([*parsed(lock(models=[repo()])).models, *parsed(lock(models=[adapter])).models], [], [])
    (one,) = made.models
    assert one.pinned_by == "lock"
    assert list(one.files) == ["adapter_config.json", "config.json", "model.safetensors"]
    whole, part = (parsed(lock(datasets=[repo(by=by, whole=by == "entry")])).datasets for by in ("entry", "lock"))
    assert lock_file([], [*whole, *part], []).datasets[0].whole


def test_differences_are_reported_and_what_is_unused_is_none():
    old = parsed(WHOLE)
    assert differences(old, old) == [] and rewritten(old, old) == []
    moved = parsed(WHOLE | {"models": [repo(commit="d" * 40)]})
    assert differences(old, moved) == ["model owner/model was ffffffffffff, is dddddddddddd (2026-01-02)"]
    other = parsed(changed(WHOLE, ("models", 0, "files", "config.json"), "3 git:" + "2" * 40))
    (line,) = rewritten(old, other)
    assert "config.json was `2 git:1111" in line and "rewritten under the same commit hash" in line
    more = parsed(changed(WHOLE, ("models", 0, "files", "new.json"), "3 git:" + "2" * 40))
    assert differences(old, more) == ["model owner/model: new.json is not in the lock file"]
    assert differences(old, parsed(changed(WHOLE, ("datasets", 0, "whole"), True))) == []
    assert differences(old, parsed(changed(WHOLE, ("datasets", 1, "whole"), True))) == [
        "data set owner/gold: is now locked whole"
    ]
    gated = changed(WHOLE, ("datasets", 0, "gated"), True)
    assert differences(old, parsed(gated)) == ["data set owner/data: is gated now"]
    assert differences(None, old) == ["there is no lock file yet"]
    assert differences(parsed(lock()), parsed(lock(urls=WHOLE["urls"])))[0].startswith(URL["url"])


def test_a_file_without_a_hash_cannot_be_locked():
    assert RemoteFile(7, SHA256).state == f"7 sha256:{SHA256}"
    with pytest.raises(ValueError, match="without a hash"):
        _ = RemoteFile(7, None).state
