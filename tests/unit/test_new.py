"""`refusal-eval new`: what it writes for folders, the catalogue and the hub, and what it says where it cannot."""

import builtins
import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from hub_calls import called
from hub_server import HubServer
from program import in_process
from safetensors.numpy import save_file
from tokenizer_folders import byte_tokenizer

from refusal_eval.tools.new.model_facts import facts_of
from refusal_eval.tools.new.model_places import name_of_folder

CONFIG = {"max_position_embeddings": 2048, "architectures": ["LlamaForCausalLM"]}


def model_folder(folder: Path) -> Path:
    """Write a model's folder."""
    byte_tokenizer(folder)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    save_file({"weight": np.zeros(4, dtype=np.float32)}, str(folder / "model.safetensors"))
    return folder


def new(*arguments: str, cwd: Path) -> tuple[int, str, str]:
    run = in_process("new", *arguments, cwd=cwd)
    return run.returncode, run.stdout, run.stderr


def written(folder: Path, name: str) -> tuple[dict, dict]:
    texts = [(folder / f"{name}{ending}.yaml").read_text() for ending in ("", "_entries")]
    study, entries = map(yaml.safe_load, texts)
    return study, entries


def test_a_folder_becomes_a_study_with_an_engine_and_says_its_cost_and_what_is_next(tmp_path: Path) -> None:
    model_folder(tmp_path / "My-FineTune")
    code, said, wrong = new("--model", "My-FineTune", cwd=tmp_path)
    assert code == 0, wrong
    study, entries = written(tmp_path, "my-finetune")
    assert study["models"] == ["my-finetune"] and study["samples"] == 5
    assert study["splits"] == ["alarming_but_safe", "sensitive", "should_decline"]
    assert study["judges"] == ["keyword", "words-english"] and study["gold"] == ["pyrit-refusal"]
    engine, model = entries["engines"]["my-finetune"], entries["models"]["my-finetune"]
    assert engine["weights"] == {"kind": "folder", "path": "My-FineTune"}
    assert engine["max_model_len"] == 2048, "as its config.json says"
    assert model["label"] == "My-FineTune" and model["sampling"] == {"max_tokens": 512, "temperature": 1.0}
    assert "Wrote my-finetune.yaml and my-finetune_entries.yaml." in said
    assert "96 prompts x K = 5 = 480 answers" in said and "tokens" in said
    for command in ("snakemake -n --configfile", "refusal-eval plan", "snakemake --cores all --configfile"):
        assert f"{command} {tmp_path}/my-finetune.yaml" in said, "from the folder of the workflow"


def test_a_catalogues_model_to_compare_with_gives_its_sampling_and_is_the_reference(tmp_path: Path) -> None:
    model_folder(tmp_path / "mine")
    arguments = ("--model", "mine", "--against", "smollm2-plain", "--samples", "2", "--name", "pair")
    code, said, wrong = new(*arguments, "--splits", "sensitive,should_decline", "--judge", "keyword", cwd=tmp_path)
    assert code == 0, wrong
    study, entries = written(tmp_path, "pair")
    assert study["models"] == ["mine", "smollm2-plain"] and study["comparisons"] == [{"against": "smollm2-plain"}]
    assert entries["models"]["mine"]["sampling"] == {"max_tokens": 40, "temperature": 0.5}
    assert study["splits"] == ["sensitive", "should_decline"] and study["judges"] == ["keyword"]
    assert "64 prompts x K = 2 x 2 models = 256 answers" in said


def test_what_options_say_of_sampling_holds_for_a_model_of_the_catalogue_too(tmp_path: Path) -> None:
    model_folder(tmp_path / "mine")
    arguments = ("--model", "mine", "--against", "smollm2-plain", "--splits", "sensitive", "--max-tokens", "16")
    code, said, wrong = new(*arguments, cwd=tmp_path)
    assert code == 0, wrong
    study, entries = written(tmp_path, "mine")
    assert study["models"] == ["mine", "smollm2-plain-here"]
    assert study["comparisons"] == [{"against": "smollm2-plain-here"}]
    drawn = {"max_tokens": 16, "temperature": 0.5}
    like = {"like": "smollm2-plain", "label": "SmolLM2-135M", "sampling": drawn}
    assert entries["models"]["smollm2-plain-here"] == like and entries["models"]["mine"]["sampling"] == drawn
    assert "smollm2-plain: `smollm2-plain` of the catalogue, with answers drawn as those of the others" in said
    assert "1 split with 32 prompts" in said and "drawn otherwise" not in said


def test_a_model_that_is_off_and_draws_otherwise_here_needs_to_be_allowed_once(tmp_path: Path) -> None:
    arguments = ("--model", "smollm2-plain", "--against", "gemma-3-4b-it", "--splits", "sensitive")
    code, _, wrong = new(*arguments, "--max-tokens", "16", "--allow", "gemma-3-4b-it", "--name", "pair", cwd=tmp_path)
    assert code == 0, wrong
    study, _ = written(tmp_path, "pair")
    assert study["models"] == ["smollm2-plain-here", "gemma-3-4b-it-here"]
    assert study["allow"] == ["gemma-3-4b-it-here"]


@pytest.mark.feature("hosted")
def test_a_hosted_model_of_the_catalogue_needs_no_device(tmp_path: Path) -> None:
    code, _, wrong = new("--model", "gpt-4.1", cwd=tmp_path)
    assert code == 1 and "`gpt-4.1` is off by default: it costs money" in wrong
    code, said, wrong = new("--model", "gpt-4.1", "--allow", "gpt-4.1", "--samples", "2", cwd=tmp_path)
    assert code == 0, wrong
    assert "192 answers: about 115,200 tokens,\nwritten elsewhere: no device of yours is needed." in said
    assert yaml.safe_load((tmp_path / "gpt-4.1.yaml").read_text())["allow"] == ["gpt-4.1"]


def test_models_that_draw_answers_in_two_ways_are_named(tmp_path: Path) -> None:
    code, said, wrong = new(
        "--model", "smollm2-plain", "--against", "qwen2.5-coder-1.5b", "--samples", "1", cwd=tmp_path
    )
    assert code == 0, wrong
    assert "qwen2.5-coder-1.5b: answers are drawn otherwise than those of smollm2-plain (max_tokens" in said
    assert "`--max-tokens` and `--temperature` hold for all models" in " ".join(said.split())


def test_the_catalogue_alone_needs_no_second_file(tmp_path: Path) -> None:
    code, said, wrong = new("--model", "smollm2-plain", "--into", "own.yaml", cwd=tmp_path)
    assert code == 0, wrong
    assert [path.name for path in tmp_path.iterdir()] == ["own.yaml"]
    assert "catalogue" not in yaml.safe_load((tmp_path / "own.yaml").read_text()) and "Wrote own.yaml.\n" in said


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    model_folder(tmp_path / "mine")
    for file in ("mine.yaml", "mine_entries.yaml"):
        (tmp_path / file).write_text("mine")
        code, _, wrong = new("--model", "mine", cwd=tmp_path)
        assert code == 1 and f"{file} is there already, and is left as it is" in wrong
        assert (tmp_path / file).read_text() == "mine"
        (tmp_path / file).unlink()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "`--model` is missing: a folder, owner/name on the hub, or a name of the catalogue"),
        (["--model", "smolm2-plain"], "did you mean `smollm2-plain`?"),
        (["--model", "no/such/folder"], "there is no folder no/such/folder"),
        (["--model", "file"], "file is a file; name the folder that holds config.json"),
        (["--model", "without"], "without has no config.json: it is not a model folder"),
        (["--model", "adapter"], "adapter holds a LoRA adapter and no whole model"),
        (["--model", "mine", "--model", "mine"], "mine is named twice"),
        (["--model", "mine", "--splits", "sensitiv"], "there is no split `sensitiv` in the catalogue; did you mean"),
        (["--model", "mine", "--judge", "keyord"], "there is no judge `keyord` in the catalogue; did you mean"),
        (["--model", "mine", "--name", "No Name"], "`--name No Name`: lower-case letters"),
        (["--model", "mine", "--into", "study.txt"], "`--into study.txt`: a study file ends in .yaml"),
        (["--model", "meta-llama/Llama-3.1-8B-Instruct"], "add `--allow llama-3.1-8b`"),
        (["--model", "owner/x", "--revision", "main"], "--revision main: must be a full commit hash"),
    ],
)
def test_what_cannot_be_is_said_and_leaves_no_file(arguments: list[str], said: str, tmp_path: Path) -> None:
    model_folder(tmp_path / "mine")
    (tmp_path / "file").touch()
    (tmp_path / "without").mkdir()
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "adapter_config.json").touch()
    code, out, wrong = new(*arguments, cwd=tmp_path)
    assert code == 1 and said in wrong and not out and "Traceback" not in wrong
    assert not list(tmp_path.glob("*.yaml"))


def test_a_repository_that_the_catalogue_has_is_its_model(tmp_path: Path) -> None:
    arguments = ("--model", "meta-llama/Llama-3.1-8B-Instruct", "--allow", "llama-3.1-8b")
    code, said, wrong = new(*arguments, cwd=tmp_path)
    assert code == 0, wrong
    study = yaml.safe_load((tmp_path / "llama-3.1-8b.yaml").read_text())
    assert study["models"] == study["allow"] == ["llama-3.1-8b"]
    assert "the catalogue has meta-llama/Llama-3.1-8B-Instruct as `llama-3.1-8b`" in said


NEW = """
from refusal_eval.__main__ import main
import contextlib, io

def call(*arguments):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["new", "--yes", *arguments])
    return [code, out.getvalue(), err.getvalue()]
"""


def test_a_repository_is_pinned_at_todays_commit_with_what_its_files_say(tmp_path: Path) -> None:
    files = {path.name: path.read_bytes() for path in model_folder(tmp_path / "files").iterdir()}
    files["generation_config.json"] = b'{"do_sample": true, "temperature": 0.7, "top_p": 0.8}'
    into = str(tmp_path / "tiny.yaml")
    with HubServer() as hub:
        sha = hub.add("model", "owner/Tiny-Chat", files, licence="apache-2.0")
        (told,), _ = called(NEW, [["--model", "owner/Tiny-Chat", "--into", into]], tmp_path, HF_ENDPOINT=hub.address)
    assert told[0] == 0, told
    _, entries = written(tmp_path, "tiny")
    engine, model = entries["engines"]["tiny-chat"], entries["models"]["tiny-chat"]
    assert engine["weights"] == {"kind": "hub", "repo": "owner/Tiny-Chat", "revision": sha}
    assert engine["licence"] == "apache-2.0" and engine["max_model_len"] == 2048
    assert model["sampling"] == {"max_tokens": 512, "temperature": 0.7, "top_p": 0.8}
    assert f"owner/Tiny-Chat: pinned at {sha[:12]}, licence: apache-2.0" in told[1]


def test_without_the_hub_a_repository_needs_its_commit(tmp_path: Path) -> None:
    into, sha = str(tmp_path / "x.yaml"), "0123456789abcdef" * 2 + "01234567"
    calls = [["--model", "owner/x", "--into", into], ["--model", "owner/x", "--into", into, "--revision", sha]]
    (failed, done), _ = called(NEW, calls, tmp_path, HF_HUB_OFFLINE="1")
    assert failed[0] == 1 and "HF_HUB_OFFLINE is set" in failed[2] and "`--revision SHA`" in failed[2]
    assert done[0] == 0, done
    assert written(tmp_path, "x")[1]["engines"]["x"]["weights"]["revision"] == sha


def test_a_gated_repository_says_where_to_ask_and_the_way_out(tmp_path: Path) -> None:
    files = {path.name: path.read_bytes() for path in model_folder(tmp_path / "files").iterdir()}
    with HubServer() as hub:
        hub.add("model", "owner/Closed", files, gated=True)
        calls = [["--model", "owner/Closed", "--into", str(tmp_path / "x.yaml")]]
        (told,), _ = called(NEW, calls, tmp_path, HF_ENDPOINT=hub.address)
    assert told[0] == 1 and "is gated: ask for access at" in told[2] and "`--revision SHA`" in told[2]
    assert not list(tmp_path.glob("*.yaml"))


def test_on_a_terminal_it_asks_for_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model_folder(tmp_path / "mine")
    questions = []
    answers = iter(["mine", "", "sensitive", "keyword", "2", "asked"])

    def reply(prompt: str = "") -> str:
        questions.append(prompt)
        return next(answers)

    monkeypatch.setattr(builtins, "input", reply)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer._click.termui.visible_prompt_func", reply, raising=False)
    code, said, wrong = new(cwd=tmp_path)
    assert code == 0, wrong
    study, _ = written(tmp_path, "asked")
    assert (study["models"], study["splits"], study["judges"], study["samples"]) == (
        ["mine"],
        ["sensitive"],
        ["keyword"],
        2,
    )
    assert "a good model complies, 32 prompts" in said, "what the splits are is shown with the question"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("runs/my-run", "my-run"),
        ("runs/my-run/checkpoint-500", "my-run-checkpoint-500"),
        ("runs/my-run/final", "my-run-final"),
        ("hub/models--Qwen--Qwen3-4B/snapshots/0123abcd", "Qwen3-4B"),
    ],
)
def test_a_folder_is_named_by_what_tells_it_apart(path: str, name: str, tmp_path: Path) -> None:
    assert name_of_folder(tmp_path / path) == name


def test_what_the_small_files_say_of_a_model() -> None:
    texts = {
        "config.json": json.dumps({"text_config": {"max_position_embeddings": 32768}, "torch_dtype": "float16"}),
        "chat_template.jinja": "{{ messages }} <think> </think>",
        "generation_config.json": '{"do_sample": false, "temperature": 0.1}',
    }
    facts = facts_of(texts, 5)
    assert (facts.longest, facts.dtype, facts.reasons, facts.has_template, facts.weights) == (
        32768,
        "float16",
        True,
        True,
        5,
    )
    assert facts.sampling == {}, "greedy decoding would give K equal answers"
    bare = facts_of({"config.json": "{", "tokenizer_config.json": "{}"}, 0)
    assert bare.longest is None and not bare.has_template
