"""gpu-check of a model whose commit is not known: it says where and what to do, or takes it from a lock file."""

import re

import pytest
import yaml

from refusal_eval.__main__ import main
from refusal_eval.core.errors import UserError
from refusal_eval.tools.check import check_command
from refusal_eval.tools.check.checked_model import checked_entry

COMMIT, OTHER = "a" * 40, "b" * 40
PLUGIN = """
from typing import Literal

from refusal_eval.config.kinds import JUDGES
from refusal_eval.judges.judge_base import AnswerJudge


@JUDGES.add
class Shortest(AnswerJudge):
    kind: Literal["shortest"]
"""


def catalogue(folder, engine=None, adapter=COMMIT):
    """Write a catalogue with a model whose weights and adapter have these commits, and a study that names nothing."""
    weights = {"kind": "hub", "repo": "org/model", "revision": engine}
    lora = {"kind": "hub", "repo": "org/adapter", "revision": adapter}
    content = {
        "engines": {"big": {"weights": weights, "max_model_len": 4096}},
        "models": {"tuned": {"engine": "big", "sampling": {"max_tokens": 100}, "lora": lora}},
    }
    (folder / "own.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    study = {"study": "mine", "models": ["smollm2-plain"], "splits": ["sensitive"], "samples": 1, "judges": ["keyword"]}
    (folder / "mine.yaml").write_text(yaml.safe_dump(study | {"catalogue": ["own.yaml"]}))
    (folder / "check").mkdir(exist_ok=True)
    return folder / "mine.yaml"


def lock(folder, name="org/model", commit=OTHER, by="lock"):
    licence = {"hub": None, "entry": None, "agrees": None}
    files = {"config.json": "2 git:" + "1" * 40}
    one = {"repo": name, "commit": commit, "date": "2026-01-02", "pinned_by": by, "gated": False}
    content = {"lock_version": 1, "models": [one | {"licence": licence, "files": files}]}
    (folder / "mine.lock.yaml").write_text(yaml.safe_dump(content))


def entry(folder, study=None):
    return checked_entry("tuned", [str(folder / "own.yaml")], folder / "check" / "study.yaml", study)


def test_an_open_pin_is_reported_with_its_place_and_the_commands(tmp_path):
    catalogue(tmp_path, adapter=None)
    with pytest.raises(UserError) as reported:
        entry(tmp_path)
    text = str(reported.value)
    assert re.search(r"engines\.big\.weights\.revision\n.*models\.tuned\.lora\.revision\n", text), "each one"
    assert "`tuned` cannot be checked yet: the commit is not known of" in text
    assert f"\n  - {tmp_path}/own.yaml:6: engines.big.weights.revision\n" in text
    assert "refusal-eval pin my_study.yaml" in text
    assert "refusal-eval check --model tuned my_study.yaml" in text
    assert str(tmp_path / "check") not in text, "the check's own study is gone when this is read"


@pytest.mark.parametrize("locked", [False, True])
def test_with_a_study_its_name_and_its_lock_file_are_reported(tmp_path, locked):
    study = catalogue(tmp_path)
    if locked:
        lock(tmp_path, "org/another")
    with pytest.raises(UserError) as reported:
        entry(tmp_path, study)
    lacks = "does not have it" if locked else "is not there"
    assert f"and {tmp_path}/mine.lock.yaml {lacks}. Name the model in {study}, run" in str(reported.value)
    assert f"refusal-eval pin {study}" in str(reported.value)


def test_the_lock_file_of_the_users_study_fills_open_pins(tmp_path):
    study = catalogue(tmp_path)
    lock(tmp_path)
    assert entry(tmp_path, study)["lora"]["revision"] == COMMIT
    # Beside the check's study, for the rules that run on it.
    assert yaml.safe_load((tmp_path / "check" / "study.lock.yaml").read_text())["models"][0]["commit"] == OTHER


def test_what_is_pinned_needs_no_lock(tmp_path):
    study = catalogue(tmp_path, engine=COMMIT)
    lock(tmp_path, commit=OTHER)  # of an earlier time, and the study does not use the model
    assert entry(tmp_path, study)["lora"]["revision"] == COMMIT
    assert not (tmp_path / "check" / "study.lock.yaml").exists()


def test_an_entry_that_differs_from_the_lock_is_reported_as_such(tmp_path):
    study = catalogue(tmp_path)
    lock(tmp_path)
    content = yaml.safe_load((tmp_path / "mine.lock.yaml").read_text())
    content["models"].append(content["models"][0] | {"repo": "org/adapter"})
    (tmp_path / "mine.lock.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(UserError, match=r"models\.tuned\.lora\.revision: is a{40}, but ") as reported:
        entry(tmp_path, study)
    assert f"but {tmp_path}/mine.lock.yaml:" in str(reported.value) and f"refusal-eval pin {study}" in str(
        reported.value
    )
    assert str(tmp_path / "check") not in str(reported.value)


def test_the_program_says_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(check_command, "take_network_away", lambda: "")
    monkeypatch.setattr(check_command, "end_with_parent", lambda: None)
    study = catalogue(tmp_path)
    assert main(["check", "--model", "tuned", str(study)]) == 1
    assert f"refusal-eval pin {study}" in capsys.readouterr().err


def test_the_plugins_of_the_study_are_known_to_the_check_of_a_model(tmp_path, monkeypatch):
    study = catalogue(tmp_path, engine=COMMIT)
    (tmp_path / "kinds.py").write_text(PLUGIN)
    content = yaml.safe_load((tmp_path / "own.yaml").read_text()) | {"judges": {"mine": {"kind": "shortest"}}}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(content))
    study.write_text(yaml.safe_dump(yaml.safe_load(study.read_text()) | {"plugins": ["kinds.py"]}))
    found = []

    def prepare(model, catalogues, cache, folder, study_file, *more):
        found.append(checked_entry(model, catalogues, folder / "study.yaml", study_file, False, *more))
        raise UserError("far enough")

    monkeypatch.setattr(check_command, "prepare", prepare)
    main(["check", "--model", "tuned", str(study)])
    assert [one["engine"] for one in found] == ["big"]
