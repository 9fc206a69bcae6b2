"""A config of the published library becomes a study of ours, which says what it changed."""

import copy

import import_published_config
import pytest
import yaml
from config_project import CATALOGUE, Project

from refusal_eval.compat.published_config import Shipped, imported
from refusal_eval.errors import UserError

CONFIG = {
    "dataset_splits": ["jailbreakbench", "xstest_safe"],
    "model": {
        "name_or_path": "Owner/Model-Thinking",
        "max_model_len": 16384,
        "max_new_tokens": 4096,
        "thinking-string": "<think>",
        "num_return_sequences": 7,
        "temperature": 0.6,
        "top_p": 0.95,
        "top_k": 20,
        "batch_size": 64,
    },
    "judge_model": {"name_or_path": "openai/gpt-oss-20b", "max_model_len": 24576, "max_new_tokens": 8192},
    "gpu_memory_utilization": 0.85,
    "tensor_parallel_size": "auto",
    "continue_from_checkpoint": True,
    "output_dir": "outputs/model",
}
SHIPPED = Shipped(["jailbreakbench", "xstest_safe"], ["keyword", "gpt-oss-20b"], {"Owner/Known": "known-engine"})


def changed(**model):
    config = copy.deepcopy(CONFIG)
    config["model"] = {k: v for k, v in (config["model"] | model).items() if v is not None}
    return config


def note(result, start):
    found = [text for text in result.notes if text.startswith(start)]
    assert len(found) == 1, result.notes
    return found[0]


def test_what_the_config_says_is_in_study_model_and_engine():
    result = imported(CONFIG, "theirs", SHIPPED, gpus=4)
    assert result.study["splits"] == ["jailbreakbench", "xstest_safe"]
    assert result.study["samples"] == 7 and result.study["judges"] == ["gpt-oss-20b"]
    engine, model = result.catalogue["engines"]["theirs"], result.catalogue["models"]["theirs"]
    assert (engine["max_model_len"], engine["tensor_parallel"], engine["memory_share"]) == (16384, 4, 0.85)
    assert engine["weights"]["repo"] == "Owner/Model-Thinking"
    assert model["sampling"] == {"max_tokens": 4096, "temperature": 0.6, "top_p": 0.95, "top_k": 20}


def test_a_mark_that_opens_the_reasoning_becomes_the_one_that_ends_it():
    result = imported(CONFIG, "theirs", SHIPPED)
    assert result.catalogue["models"]["theirs"]["reasoning"] == {"start": "<think>", "end": "</think>"}
    assert "</think> it is" in note(result, "model.thinking-string")


@pytest.mark.parametrize("key", ["thinking-string", "thinking_string"])
def test_an_end_mark_stays_under_both_spellings_of_its_key(key):
    config = changed(**{"thinking-string": None}) | {}
    config["model"][key] = "</think>"
    result = imported(config, "theirs", SHIPPED)
    assert result.catalogue["models"]["theirs"]["reasoning"] == {"end": "</think>"}
    assert not [text for text in result.notes if text.startswith("model.thinking")]


def test_a_thinking_model_without_a_mark_is_pointed_out():
    result = imported(changed(**{"thinking-string": None}), "theirs", SHIPPED)
    assert "reasoning" not in result.catalogue["models"]["theirs"]
    assert "looks like a model that reasons" in note(result, "model.thinking-string")


def test_sampling_that_their_code_ignores_is_told_under_both_protocols():
    assert "here they hold" in note(imported(CONFIG, "theirs", SHIPPED), "model.temperature")
    compat = imported(CONFIG, "theirs", SHIPPED, protocol="compat")
    assert compat.study["protocol"] == "compat"
    assert "does the same" in note(compat, "model.temperature")


def test_top_k_off_is_zero_here():
    result = imported(changed(top_k=-1, temperature=1.0, top_p=1.0), "theirs", SHIPPED)
    assert result.catalogue["models"]["theirs"]["sampling"]["top_k"] == 0
    assert not [text for text in result.notes if text.startswith("model.temperature")]


def test_an_engine_of_the_catalogue_is_used_and_another_needs_its_commit():
    known = imported(changed(name_or_path="Owner/Known"), "theirs", SHIPPED)
    assert known.catalogue["engines"]["theirs"]["like"] == "known-engine" and known.todo == []
    assert "commit hash of Owner/Model-Thinking" in imported(CONFIG, "theirs", SHIPPED).todo[0]


def test_what_has_no_meaning_here_is_said():
    notes = "\n".join(imported(CONFIG | {"seed": 3}, "theirs", SHIPPED).notes)
    for key in ("batch_size", "continue_from_checkpoint", "output_dir", "seed", "tensor_parallel_size: auto"):
        assert key in notes
    assert "16384 tokens for rubric and answer" in notes


def test_unknown_splits_are_left_out_and_none_at_all_is_an_error():
    result = imported(
        CONFIG | {"dataset_splits": ["jailbreakbench", "jailbreakbenh", {"dataset_id": "a/b"}]}, "t", SHIPPED
    )
    assert result.study["splits"] == ["jailbreakbench"]
    assert "did you mean `jailbreakbench`" in result.todo[-2] and "a/b" in result.todo[-1]
    with pytest.raises(UserError, match="none of `dataset_splits`"):
        imported(CONFIG | {"dataset_splits": ["nothing"]}, "t", SHIPPED)


@pytest.mark.parametrize("broken", [{}, {"model": {}}, {"model": {"x": 1}, "dataset_splits": ["jailbreakbench"]}])
def test_another_yaml_file_is_refused(broken):
    with pytest.raises(UserError, match="is missing"):
        imported(broken, "t", SHIPPED)


def test_the_command_writes_a_study_that_the_config_check_takes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    project = Project(tmp_path)
    monkeypatch.setattr(import_published_config, "ROOT", tmp_path)
    config = changed(name_or_path="owner/model") | {"dataset_splits": ["hub-rows"], "tensor_parallel_size": 2}
    project.write("Theirs Qwen.yaml", config)
    assert "hub-engine" in CATALOGUE["engines"]
    assert import_published_config.main(["Theirs Qwen.yaml"]) == 0
    told = capsys.readouterr().out
    assert "Wrote theirs-qwen.yaml and theirs-qwen_entries.yaml" in told
    study = yaml.safe_load((tmp_path / "theirs-qwen.yaml").read_text())
    loaded = project.load(study, "again.yaml", overrides={"study": "theirs-qwen"})
    assert loaded["engine_entries"]["theirs-qwen"]["weights"]["repo"] == "owner/model"
    assert loaded["model_entries"]["theirs-qwen"]["reasoning"]["end"] == "</think>"
    assert import_published_config.main(["Theirs Qwen.yaml"]) == 1, "nothing is written over"
    assert "is there already" in capsys.readouterr().err


def test_a_config_beside_its_study_is_not_in_the_way(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(import_published_config, "ROOT", tmp_path)
    Project(tmp_path).write("theirs.yaml", CONFIG | {"dataset_splits": ["hub-rows"]})
    assert import_published_config.main(["theirs.yaml"]) == 0
    assert (tmp_path / "theirs-imported.yaml").exists()


def test_a_split_that_is_off_by_default_is_allowed_and_its_reason_told():
    shipped = Shipped(["jailbreakbench", "gated"], ["keyword"], {}, {"gated": "It is for readers of its terms."})
    config = {"model": {"name_or_path": "Owner/Known"}, "dataset_splits": ["jailbreakbench", "gated"]}
    result = imported(config, "mine", shipped)
    assert result.study["allow"] == ["gated"]
    assert any("It is for readers of its terms." in todo for todo in result.todo)
