"""Weights that are gated or not for commercial use: models and judges with them are off, and a study is told why."""

import pytest
import yaml
from config_project import COMMIT

from refusal_eval.config.catalogue import Catalogue, shipped_files
from refusal_eval.config.load_study import load_study
from refusal_eval.config.problems import ConfigError
from refusal_eval.tools.check.checked_model import asking_study

OFF_ENGINES = {"gemma-3-4b-it", "llama-3.1-8b", "llama-3.3-70b", "wildguard", "llm-refusal-classifier"}
OFF_MODELS = {"gemma-3-4b-it", "gemma-3-4b-it-paper", "llama-3.1-8b", "llama-3.3-70b"}
OFF_JUDGES = {"wildguard", "llm-refusal-classifier"}


@pytest.fixture(scope="module")
def shipped(repository):
    files, problems = shipped_files(str(repository)), []
    catalogue = Catalogue(files, len(files), problems)
    assert problems == []
    return catalogue.valid


@pytest.fixture
def study(repository, monkeypatch):
    monkeypatch.chdir(repository)
    return {"study": "s", "models": ["smollm2-plain"], "splits": ["sensitive"], "samples": 2, "judges": ["keyword"]}


def mistakes(study, name="config/config.yaml"):
    try:
        load_study(study, name, open_pins=True)
    except ConfigError as error:
        return str(error)
    return ""


def test_engines_whose_weights_are_gated_or_non_commercial_are_off_and_say_why(shipped):
    engines = shipped["engines"]
    assert {name for name, engine in engines.items() if not engine.enabled} == OFF_ENGINES
    for name, engine in engines.items():
        asks = engine.gated or "-NC" in (engine.licence or "")
        assert bool(asks) == (not engine.enabled), name
        assert engine.enabled or (engine.reason and engine.terms), name


def test_models_and_judges_with_such_weights_need_to_be_allowed(shipped, study):
    for key, names in (("models", OFF_MODELS), ("judges", OFF_JUDGES)):
        using = {name for name, entry in shipped[key].items() if getattr(entry, "engine", None) in OFF_ENGINES}
        assert using == names
        for name in names:
            told = mistakes(study | {key: [name]})
            engine = shipped["engines"][shipped[key][name].engine]
            assert f"`{name}` is off by default" in told and engine.reason in told and engine.terms in told
            assert f"write `allow: [{name}]` into the study" in told
            assert mistakes(study | {key: [name], "allow": [name]}) == ""


def test_an_own_entry_on_the_same_weights_is_off_too_and_own_gated_weights_are_not(study, tmp_path):
    weights = {"kind": "hub", "repo": "owner/gated", "revision": COMMIT}
    mine = {"weights": weights, "max_model_len": 64, "gated": True, "terms": "https://example.org"}
    models = {
        "warm": {"like": "gemma-3-4b-it", "sampling": {"max_tokens": 9, "temperature": 1.5}},
        "own": {"engine": "mine", "sampling": {"max_tokens": 9}},
    }
    file = tmp_path / "own.yaml"
    file.write_text(yaml.safe_dump({"engines": {"mine": mine}, "models": models}), encoding="utf-8")
    told = mistakes(study | {"models": ["warm", "own"], "catalogue": [str(file)]})
    assert "`warm` is off by default" in told and "`own`" not in told


def test_what_is_allowed_has_to_be_used(study):
    told = mistakes(study | {"allow": ["wildguard"]})
    assert "`wildguard` is not one of `models`, `splits`, `judges` or `gold`" in told


def test_a_check_of_a_gated_model_is_allowed_by_naming_it(study):
    assert mistakes(asking_study("gemma-3-4b-it", [])) == ""
