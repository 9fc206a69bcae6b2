"""Parts of a plan: which disk takes what and whether there is room, and on which terms something may be used."""

import pytest
from config_project import COMMIT, WHOLE_STUDY, Project, changed

from refusal_eval.study.paths import Paths
from refusal_eval.study.row_sources import fetched_path
from refusal_eval.tools.plan.disk_use import Need, device_of, disk_needs, disks
from refusal_eval.tools.plan.plan_page import disk_lines
from refusal_eval.tools.plan.study_costs import plan_study
from refusal_eval.tools.plan.study_terms import OpenPin, Terms, licence_lines, open_pins, pin_lines, terms_of


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path)


def needs(project, config):
    plan = plan_study(config, project.folder / "study.yaml", project.folder, None)
    return {need.what: need for need in disk_needs(plan, project.folder)}


# ---------------------------------------------------------------- disk

WEIGHTS = Need("weights", "cache", "cache_dir", 100e9, 100e9, "1 to fetch")
RESPONSES = Need("responses", "store", "store_dir", 10e9, 60e9)


@pytest.mark.parametrize(
    ("free", "verdict"),
    [(200, "enough"), (150, "tight"), (116, "tight"), (115, "too small"), (0, "too small")],
)
def test_there_is_room_for_what_is_expected_and_a_warning_for_what_may_be(free, verdict):
    (disk,) = disks([WEIGHTS, RESPONSES], lambda folder: free * 10**9, lambda folder: "one")
    assert (disk.expected, disk.most, disk.verdict) == (110e9, 160e9, verdict)
    text = " ".join(" ".join(disk_lines([WEIGHTS, RESPONSES], [disk])).split())
    assert ("TOO SMALL" in text) == (verdict == "too small") and ("Tight" in text) == (verdict == "tight")
    assert "weights 100 GB in cache 1 to fetch" in text and "responses 10 GB (at most 60 GB) in store" in text


def test_folders_on_two_disks_are_told_apart_and_the_one_that_is_full_is_named():
    free = {"cache": 50 * 10**9, "store": 10**12}
    found = disks([WEIGHTS, RESPONSES], free.__getitem__, lambda folder: folder)
    assert [(disk.folders, disk.key, disk.verdict) for disk in found] == [
        (("cache",), "cache_dir", "too small"),
        (("store",), "store_dir", "enough"),
    ]
    (told,) = [line for line in disk_lines([WEIGHTS, RESPONSES], found) if "TOO SMALL" in line]
    assert "Set `cache_dir` to a larger disk" in told


def test_a_folder_that_is_not_there_yet_lies_on_the_disk_of_its_parent(tmp_path):
    assert device_of(str(tmp_path / "a" / "b")) == device_of(str(tmp_path))


def test_weights_that_two_engines_share_are_fetched_once_and_what_is_here_is_not_fetched(project):
    engine = {"weights": {"kind": "hub", "repo": "owner/x-8B", "revision": COMMIT}, "max_model_len": 2048}
    engines = {"one": engine | {"weights_gb": 16.5}, "two": engine | {"weights_gb": 16.5, "max_model_len": 1024}}
    models = {name: {"engine": name, "sampling": {"max_tokens": 64}} for name in engines}
    project.write("own.yaml", {"engines": engines, "models": models})
    config = project.load(WHOLE_STUDY | {"models": [*models], "catalogue": ["own.yaml"], "judges": ["words"]})
    assert needs(project, config)["weights"].expected == 16.5e9
    project.write(Paths(config).weights_manifest(config["engine_entries"]["one"]["weights"]), '{"files": {}}')
    found = needs(project, config)["weights"]
    assert found.expected == 0 and found.detail == "1 here already"


def test_rows_are_to_be_fetched_until_they_are_here(project):
    config = project.load(WHOLE_STUDY)
    before = needs(project, config)["rows"]
    assert before.detail == "2 to fetch" and before.expected > 0  # of the hub and of a wheel; files are here
    for name in ("hub-rows", "wheel-rows"):
        project.write(fetched_path(config["split_entries"][name]["source"], config["cache_dir"]), "x")
    after = needs(project, changed(config, ("samples",), 3))["rows"]
    assert (after.detail, after.expected) == ("all here already", 0)


def test_longer_answers_and_more_samples_take_more_store(project):
    config = project.load(WHOLE_STUDY)
    few, many = (needs(project, changed(config, ("samples",), samples))["responses"] for samples in (2, 4))
    assert 1.8 * few.expected < many.expected < 2.2 * few.expected
    longer = changed(config, ("model_entries", "plain", "sampling", "max_tokens"), 2000)
    assert needs(project, longer)["responses"].most > 3 * few.most > 0


# ---------------------------------------------------------------- terms


def terms(**keys):
    whole = {"section": "models", "name": "m", "source": "owner/m", "licence": "MIT", "origin": None}
    return Terms(**whole | {"gated": False, "page": None, "here": False} | keys)


@pytest.mark.parametrize(
    ("licence", "origin", "found"),
    [
        ("CC-BY-NC-4.0", None, True),
        ("none stated", "CC-BY-NC-SA-4.0", True),
        ("for non-commercial research", None, True),
        ("MIT", None, False),
        ("Llama 3.1 Community License", "CC-BY-4.0", False),
        ("CNC licence", None, False),
    ],
)
def test_what_is_not_for_commercial_use_is_seen_by_its_licence(licence, origin, found):
    assert terms(licence=licence, origin=origin).non_commercial == found


def text_of(*these, token=False):
    return " ".join(" ".join(licence_lines(these, token)).split())


def test_a_gate_is_told_while_it_must_be_passed_and_its_terms_ever_after():
    gated = {"gated": True, "page": "https://example.org"}
    assert "Ask for access at https://example.org, then set HF_TOKEN" in text_of(terms(**gated))
    here = text_of(terms(**gated, here=True))
    assert "it is here already. Its terms hold: https://example.org" in here and "HF_TOKEN" not in here
    assert "GATED" not in text_of(terms())
    assert "Not known whether gated: owner/m (m)" in text_of(terms(gated=None))


def test_licences_are_grouped_with_those_of_their_origin():
    text = text_of(
        terms(),
        terms(name="n"),
        terms(section="splits", name="s", licence="none stated", origin="MIT"),
        terms(section="splits", name="t", licence="none stated", origin="CC-BY-4.0"),
    )
    assert "models MIT: m, n" in text
    assert "splits none stated. That of what it was made from: MIT: s; CC-BY-4.0: t" in text


def test_a_judge_with_an_engine_has_its_terms_and_one_without_has_none(project):
    found = {(one.section, one.name): one for one in terms_of(project.load(WHOLE_STUDY))}
    assert ("judges", "reader") in found and ("judges", "words") not in found
    assert found["models", "plain"].source == "owner/model" and not found["models", "plain"].here
    assert found["models", "thinker"].here, "a folder of the user's own"
    assert {name for section, name in found if section == "gold"} == {"people"}


def test_an_adapter_has_terms_of_its_own_which_nobody_stated(project):
    found = {one.name: one for one in terms_of(project.load(WHOLE_STUDY | {"models": ["tuned"], "comparisons": []}))}
    assert (found["tuned (adapter)"].source, found["tuned (adapter)"].licence) == ("owner/adapter", "none stated")


def test_every_kind_of_open_pin_is_found_once(project):
    config = project.load(WHOLE_STUDY | {"models": ["plain", "tuned"], "splits": ["hub-rows", "url-rows"]})
    assert open_pins(config) == []
    for path in (
        ("engine_entries", "hub-engine", "weights", "revision"),
        ("model_entries", "tuned", "lora", "revision"),
        ("split_entries", "hub-rows", "source", "revision"),
        ("split_entries", "url-rows", "source", "sha256"),
    ):
        config = changed(config, path, None)
    assert [(pin.section, pin.name, pin.key) for pin in open_pins(config)] == [
        ("engines", "hub-engine", "revision"),
        ("models", "tuned", "revision"),
        ("splits", "hub-rows", "revision"),
        ("splits", "url-rows", "sha256"),
    ]
    text = " ".join(pin_lines(open_pins(config), "my.yaml", None))
    assert "refusal-eval pin my.yaml" in text and "the SHA-256 of https://example.org/0123/rows.csv" in text


def test_entries_with_one_open_source_are_told_together():
    pins = [OpenPin("splits", name, "revision", "owner/data") for name in ("a", "b")]
    assert pin_lines(pins, "my.yaml", None)[1:] == ["  the commit of owner/data (a, b)"]
