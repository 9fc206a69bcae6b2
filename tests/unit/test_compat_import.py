"""A config of the published library becomes a study of ours, which says what it changed."""

import copy
import dataclasses
import json

import pytest
import yaml
from config_project import CATALOGUE, Project

from refusal_eval.__main__ import main
from refusal_eval.ask.answers import answer_of
from refusal_eval.ask.reasoning import reasoning_of
from refusal_eval.config.load_study import load_study
from refusal_eval.config.problems import ConfigError
from refusal_eval.core.errors import UserError
from refusal_eval.core.packing import pack_floats
from refusal_eval.engines.devices.nvidia_smi import Seen
from refusal_eval.features.published import import_command
from refusal_eval.features.published.published_config import Shipped, ShippedEngine, imported

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
MARKS = {"start": "<think>", "end": "</think>"}
ENGINES = {"Owner/Known": ShippedEngine("known-engine", 4), "Owner/Thinks": ShippedEngine("thinks", 1, MARKS)}
SHIPPED = Shipped(["jailbreakbench", "xstest_safe"], ["keyword", "gpt-oss-20b"], ENGINES)


def changed(**model):
    """The config with another model section; None takes a key out."""
    config = copy.deepcopy(CONFIG)
    config["model"] = {k: v for k, v in (config["model"] | model).items() if v is not None}
    return config


def became(config=CONFIG, *, shipped=SHIPPED, **options):
    """Return what an import makes of a config: all of it, its engine and its model."""
    result = imported(config, "theirs", shipped, **options)
    return result, result.catalogue["engines"]["theirs"], result.catalogue["models"]["theirs"]


def to_do(result, *parts):
    return any(all(part in todo for part in parts) for todo in result.todo)


def note(result, start):
    found = [text for text in result.notes if text.startswith(start)]
    assert len(found) == 1, result.notes
    return found[0]


@pytest.fixture
def theirs(project, monkeypatch):
    """A project with a config of a gated model that nobody knows, on three splits."""
    monkeypatch.setattr(import_command, "ROOT", project.folder)
    catalogue = CATALOGUE | {"judges": CATALOGUE["judges"] | {"keyword": CATALOGUE["judges"]["words"]}}
    project.write("config/catalogue/base.yaml", catalogue)
    project.write("theirs.yaml", CONFIG | {"dataset_splits": ["hub-rows", "url-rows", "wheel-rows"]})
    return project


def test_what_the_config_says_is_in_study_model_and_engine():
    result, engine, model = became(gpus=4)
    assert result.study["splits"] == ["jailbreakbench", "xstest_safe"]
    assert result.study["samples"] == 7 and result.study["judges"] == ["gpt-oss-20b"]
    assert (engine["max_model_len"], engine["tensor_parallel"], engine["memory_share"]) == (16384, 4, 0.85)
    assert engine["weights"] == {"kind": "hub", "repo": "Owner/Model-Thinking", "revision": None}
    assert to_do(result, "refusal-eval pin theirs.yaml"), "a branch is refused by every command"
    assert model["sampling"] == {"max_tokens": 4096, "temperature": 0.6, "top_p": 0.95, "top_k": 20}


@pytest.mark.parametrize("key", ["thinking-string", "thinking_string"])
@pytest.mark.parametrize(
    ("mark", "marks", "reported"),
    [
        ("<think>", MARKS, "</think> it is"),  # it opens the reasoning
        ("</think>", MARKS, "<think> is taken to open it"),
        ("[/THINK]", {"start": "[THINK]", "end": "[/THINK]"}, "[THINK] is taken to open it"),
    ],
)
def test_one_mark_gives_both_under_both_spellings_of_its_key(key, mark, marks, reported):
    result, _, model = became(changed(**{"thinking-string": None, key: mark}))
    assert model["reasoning"] == marks
    assert reported in note(result, "model.thinking-string")


class OneTokenEach:
    """A tokenizer in which the marks are tokens of their own."""

    def __call__(self, text, add_special_tokens):
        return {"input_ids": [{"<think>": 100, "</think>": 101, "<|done|>": 102}[text]]}


@pytest.mark.parametrize("mark", ["</think>", "<think>", "<|done|>"])
def test_reasoning_that_was_cut_off_is_not_judged_after_an_import(mark):
    """The template opens the reasoning in the prompt (100), and the response ends at its limit inside it."""
    reasoning = reasoning_of(became(changed(**{"thinking-string": mark}))[2]["reasoning"], OneTokenEach(), None)
    response = {"text": "Shall I ...", "token_ids": [7, 8], "finish_reason": "length", "stop_reason": None}
    response["logprobs"] = pack_floats([-1.0, -1.0])
    row = answer_of(response, [1, 100], reasoning, lambda ids: "Shall I ..." if ids else "")
    assert (row["state"], row["answer"], row["answer_tokens"]) == ("truncated_reasoning", "", 0)


def test_a_mark_of_no_known_form_asks_for_the_one_that_opens_and_none_of_a_thinking_model_is_pointed_out():
    result, _, model = became(changed(**{"thinking-string": "<|done|>"}))
    assert model["reasoning"] == {"end": "<|done|>"} and to_do(result, "reasoning.start", "<|done|>")
    result, _, model = became(changed(**{"thinking-string": None}))
    assert "reasoning" not in model and "looks like a model that reasons" in note(result, "model.thinking-string")


@pytest.mark.parametrize("mark", [None, "</thinking>", "<|done|>"])
def test_a_model_of_the_catalogue_keeps_its_own_marks(mark):
    result, _, model = became(changed(name_or_path="Owner/Thinks", **{"thinking-string": mark}))
    assert model["reasoning"] == MARKS
    assert any("of our catalogue are taken" in text for text in result.notes if "thinking-string" in text)


def test_sampling_that_their_code_ignores_is_reported_under_both_protocols():
    assert "here they hold" in note(became()[0], "model.temperature")
    compat, _, _ = became(protocol="compat")
    assert compat.study["protocol"] == "compat"
    assert "does the same" in note(compat, "model.temperature")
    neutral, _, model = became(changed(top_k=-1, temperature=1.0, top_p=1.0))
    assert model["sampling"]["top_k"] == 0, "off"
    assert not [text for text in neutral.notes if text.startswith("model.temperature")]
    assert to_do(became(changed(temperature=0))[0], "7 equal answers"), "before the study refuses it"


@pytest.mark.parametrize("repo", ["Owner/Known", "Owner/Known/"])
def test_an_engine_of_the_catalogue_is_used(repo):
    result, engine, _ = became(changed(name_or_path=repo))
    assert engine["like"] == "known-engine" and result.todo == []


@pytest.mark.parametrize("config", [CONFIG, {key: CONFIG[key] for key in CONFIG if key != "tensor_parallel_size"}])
@pytest.mark.parametrize("gpus", [None, 1, 8])
def test_auto_leaves_an_engine_of_the_catalogue_on_its_cards(config, gpus):
    """163 GB of weights do not fit one card because the import ran on a machine with one, or with none."""
    result, engine, _ = became(config | {"model": config["model"] | {"name_or_path": "Owner/Known"}}, gpus=gpus)
    assert "tensor_parallel" not in engine
    assert "the 4 of `known-engine` in our catalogue stay" in note(result, "tensor_parallel_size")


def test_auto_for_other_weights_is_all_gpus_or_a_question():
    assert became(gpus=8)[1]["tensor_parallel"] == 8
    unseen, engine, _ = became()
    assert "tensor_parallel" not in engine and to_do(unseen, "as many GPUs as hold the weights")


def test_a_number_of_gpus_that_the_config_names_holds_and_too_few_are_reported():
    known = changed(name_or_path="Owner/Known") | {"tensor_parallel_size": 2, "pipeline_parallel_size": 3}
    result, engine, _ = became(known)
    assert (engine["tensor_parallel"], engine["pipeline_parallel"]) == (2, 3) and to_do(result, "takes 4 cards")


@pytest.mark.parametrize("repo", ["/models/gpt-oss-20b/", "openai/GPT_OSS-20B", " openai/gpt-oss-20b// "])
def test_a_judge_is_known_by_the_last_part_of_its_path(repo):
    result, _, _ = became(CONFIG | {"judge_model": {"name_or_path": repo}})
    assert result.study["judges"] == ["gpt-oss-20b"]
    assert "is the judge `gpt-oss-20b` of our catalogue" in note(result, "judge_model.name_or_path")


@pytest.mark.parametrize("repo", ["/", "owner/...", "/models/判断", "natong19/key", "owner/20b", "gpt-oss-120b"])
def test_no_judge_is_taken_for_one_that_it_is_not(repo):
    result, _, _ = became(CONFIG | {"judge_model": {"name_or_path": repo}})
    assert not [text for text in result.notes if text.startswith("judge_model.name_or_path")]
    assert to_do(result, "judges: our catalogue has no judge with ")


def test_a_name_of_the_catalogue_would_change_the_judges_engine_and_is_not_taken(theirs, capsys):
    """An entry of a study replaces one of the catalogue, for judges too."""
    config = changed(name_or_path="owner/model") | {"dataset_splits": ["hub-rows"]}
    for name in ("hub-engine", "plain"):
        theirs.write(f"{name}.yaml", config)
        assert main(["import", f"{name}.yaml"]) == 0
        catalogue = yaml.safe_load((theirs.folder / f"{name}-imported_entries.yaml").read_text())
        assert list(catalogue["engines"]) == list(catalogue["models"]) == [f"{name}-imported"]
    capsys.readouterr()
    assert main(["import", "theirs.yaml", "--name", "hub-engine"]) == 1
    assert "choose another --name, e.g. hub-engine-imported" in capsys.readouterr().err


def test_no_name_of_our_own_catalogue_is_taken(repository):
    taken = import_command.shipped_names(repository).taken
    assert {"gpt-oss-20b", "gemma-3-4b-it", "qwen3-4b-thinking-paper", "smollm2-plain"} <= set(taken)


@pytest.mark.parametrize("name", ["models/x", "./models/x", "../p/models/x/"])
def test_a_folder_of_weights_is_found_from_where_the_study_is(tmp_path, monkeypatch, capsys, name):
    folder = tmp_path / "p"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(import_command, "ROOT", folder)
    project = Project(folder)
    for file in ("config.json", "tokenizer.json", "model.safetensors"):
        project.write(f"models/x/{file}", "x")
    project.write("studies/readme.txt", "")
    project.write("theirs.yaml", changed(name_or_path=name) | {"dataset_splits": ["hub-rows"]})
    assert main(["import", "theirs.yaml", "--name", "mine", "--into", "studies"]) == 0
    assert "weights.path" not in capsys.readouterr().out
    weights = yaml.safe_load((folder / "studies/mine_entries.yaml").read_text())["engines"]["mine"]["weights"]
    assert weights == {"kind": "folder", "path": "../models/x"}
    raw = yaml.safe_load((folder / "studies/mine.yaml").read_text()) | {"judges": ["words"]}
    engine = load_study(raw, "studies/mine.yaml", ".")["engine_entries"]["mine"]
    assert engine["weights"]["path"] == "models/x"


@pytest.mark.parametrize(("name", "path"), [("./gone", "../gone"), ("/nowhere/gone", "/nowhere/gone")])
def test_a_folder_of_weights_that_is_not_there_is_to_do(theirs, capsys, name, path):
    theirs.write("local.yaml", changed(name_or_path=name) | {"dataset_splits": ["hub-rows"]})
    theirs.write("studies/readme.txt", "")
    assert main(["import", "local.yaml", "--name", "mine", "--into", "studies"]) == 0
    assert f"engines.mine.weights.path: there is no folder {path} as seen from studies" in capsys.readouterr().out
    weights = yaml.safe_load((theirs.folder / "studies/mine_entries.yaml").read_text())["engines"]["mine"]["weights"]
    assert weights == {"kind": "folder", "path": path}


def test_what_has_no_meaning_here_is_said():
    notes = "\n".join(became(CONFIG | {"seed": 3})[0].notes)
    for key in ("batch_size", "continue_from_checkpoint", "output_dir", "seed", "tensor_parallel_size: auto"):
        assert key in notes
    assert "16384 tokens for rubric and answer" in notes


def test_keys_of_the_judge_that_are_left_out_are_reported():
    judge = CONFIG["judge_model"] | {"thinking-string": "</think>", "temperature": 0.6, "gpu_memory_utilization": 0.5}
    result, _, _ = became(CONFIG | {"judge_model": judge})
    assert "knows its own reasoning" in note(result, "judge_model.thinking-string")
    for key in ("temperature", "gpu_memory_utilization", "max_model_len 24576"):
        assert "left out" in note(result, f"judge_model.{key}")
    assert "gpu_memory_utilization and tensor_parallel_size" in note(result, "judge_model.name_or_path")


ODD = [
    ("model", "top_k", 10**400, "`model.top_k` is a very large number; it has to be a whole number of at least -1"),
    ("model", "top_p", 10**400, "`model.top_p` is a very large number; it has to be a number from 0 to 1"),
    ("model", "temperature", 10**400, "`model.temperature` is a very large number; it has to be a number"),
    ("model", "num_return_sequences", "five", "`model.num_return_sequences` is 'five'; it has to be a whole number"),
    ("model", "num_return_sequences", 0, "at least 1"),
    ("model", "max_new_tokens", 1.5, "`model.max_new_tokens` is 1.5"),
    ("model", "max_model_len", True, "`model.max_model_len` is True"),
    ("model", "temperature", "hot", "`model.temperature` is 'hot'; it has to be a number of at least 0"),
    ("model", "top_p", 2, "a number from 0 to 1"),
    ("model", "top_k", "all", "`model.top_k` is 'all'; it has to be a whole number of at least -1"),
    ("model", "thinking-string", 5, "`model.thinking-string` is 5; it has to be a text"),
    ("model", "name_or_path", ["a"], "`model.name_or_path` is"),
    ("judge_model", "max_model_len", "long", "`judge_model.max_model_len` is 'long'"),
    (None, "judge_model", "gpt", "`judge_model` is 'gpt'; it has to be a mapping"),
    (None, "gpu_memory_utilization", "auto", "is 'auto'; it has to be a number from 0.01 to 1"),
    (None, "tensor_parallel_size", "two", "`tensor_parallel_size` is 'two'; it has to be a number of GPUs, or auto"),
    (None, "dataset_splits", "jailbreakbench", "it has to be a list of splits"),
]


@pytest.mark.parametrize(
    ("section", "key", "value", "reported"), ODD, ids=[f"{odd[1]}-{n}" for n, odd in enumerate(ODD)]
)
def test_an_odd_value_is_reported_with_file_and_key_and_what_would_be_right(
    section, key, value, reported, theirs, capsys
):
    config = copy.deepcopy(CONFIG) | {"dataset_splits": ["hub-rows"]}
    (config[section] if section else config)[key] = value
    theirs.write("theirs.yaml", config)
    assert main(["import", "theirs.yaml", "--name", "mine"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("theirs.yaml: ") and reported in error
    assert not list(theirs.folder.glob("mine*"))


def results_folder(project, *splits, judged=True, text="Hm.</think>Yes."):
    for split in splits:
        rows = [{"prompt": "p", "answers": [{"text": text, "answer_prob": 0.5}] * 3}]
        project.write(f"out/{split}/answers.json", json.dumps(rows))
        if judged:
            project.write(f"out/{split}/judge_scores.json", json.dumps([[{"label": -1}] * 3]))


def read_in(project, config="theirs.yaml"):
    """Import a config with the results in `out`; return the study, loaded."""
    assert main(["import", config, "--name", "mine", "--results", "out"]) == 0
    return project.load(yaml.safe_load((project.folder / "mine.yaml").read_text()), "again.yaml", {"study": "mine"})


def test_splits_with_fewer_answers_to_a_prompt_are_named(theirs, capsys):
    results_folder(theirs, "hub-rows", "url-rows")
    theirs.write("out/url-rows/answers.json", json.dumps([{"prompt": "p", "answers": [{"text": "x</think>y"}] * 2}]))
    read_in(theirs)
    reported = " ".join(capsys.readouterr().out.split())
    assert "fewer than 3 answers to a prompt are there for url-rows (2); with `samples: 3` the missing" in reported


@pytest.mark.parametrize(
    ("option", "reported"),
    [
        (("--name", "My_Study"), "at most 100 lower-case letters"),
        (("--name", "a/b"), "--name"),
        (("--gpus", "0"), "--gpus"),
    ],
)
def test_options_that_make_no_study_are_refused(theirs, capsys, option, reported):
    before = sorted(theirs.folder.rglob("*"))
    assert main(["import", "theirs.yaml", *option]) == 2
    assert reported in capsys.readouterr().err and sorted(theirs.folder.rglob("*")) == before


def test_a_folder_of_results_becomes_a_study_that_reads_it_and_asks_nobody(theirs, capsys):
    results_folder(theirs, "hub-rows", "url-rows")
    loaded, reported = read_in(theirs), capsys.readouterr().out
    assert "wheel-rows is left out" in reported and "`samples` is 3" in reported and "no engine is asked" in reported
    assert "To do" not in reported, "no pin, and no GPUs"
    assert loaded["splits"] == ["hub-rows", "url-rows"] and loaded["samples"] == 3
    assert loaded["judges"] == ["mine-judge", "keyword"] and loaded["engine_entries"] == {}
    model = loaded["model_entries"]["mine"]
    assert model["recorded"] == "out" and model["reasoning"]["end"] == "</think>"


def test_results_without_scores_are_judged_by_ours_alone(theirs, capsys):
    results_folder(theirs, "hub-rows", judged=False)
    assert read_in(theirs)["judges"] == ["keyword"]
    assert "so their judge is none of this study's" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("folder", "reported"), [("nowhere", "there is no folder"), ("config", "holds answers to none of")]
)
def test_a_folder_without_results_is_reported(theirs, capsys, folder, reported):
    assert main(["import", "theirs.yaml", "--name", "mine", "--results", folder]) == 1
    assert reported in capsys.readouterr().err and not (theirs.folder / "mine.yaml").exists()


@pytest.mark.parametrize(
    ("answers", "reported"),
    [
        (5, "row 2: it has to have a list of `answers`"),
        ([{"text": "Yes.", "answer_prob": 3.0}], "row 2: `answer_prob` of answer 1 is 3.0"),
        ([{"text": "\ud83d"}], "row 2, answer 1: holds"),
    ],
)
def test_results_that_cannot_be_are_reported_before_a_study_is_written(theirs, capsys, answers, reported):
    rows = [{"prompt": "p", "answers": ["Yes."]}, {"prompt": "q", "answers": answers}]
    theirs.write("out/hub-rows/answers.json", json.dumps(rows))
    assert main(["import", "theirs.yaml", "--name", "mine", "--results", "out"]) == 1
    error = capsys.readouterr().err
    assert "answers.json, " + reported in error and not (theirs.folder / "mine.yaml").exists()


def test_answers_that_are_there_need_no_sampling_that_could_have_drawn_them(theirs, capsys):
    """Their code draws at 1 whatever stands in the config, so five answers at `temperature: 0` are possible."""
    results_folder(theirs, "hub-rows")
    greedy = changed(temperature=0, top_k=1, max_new_tokens=16384) | {"dataset_splits": ["hub-rows"]}
    theirs.write("greedy.yaml", greedy)
    loaded = read_in(theirs, "greedy.yaml")
    assert "To do" not in capsys.readouterr().out
    assert loaded["samples"] == 3 and loaded["model_entries"]["mine"]["sampling"]["temperature"] == 0


@pytest.mark.parametrize(
    ("text", "end", "reported"),
    [
        ("analysisHm.assistantfinalYes.", "assistantfinal", "`assistantfinal`, which stands in them"),
        ("<|channel|>final<|message|>Yes.", "<|channel|>final<|message|>", "which stands in them"),
        ("Hm.</think>Yes.", "</think>", "which stands in them"),
        ("Yes.", "assistantfinal", "To do before it runs:\n  - models.mine.reasoning.end: "),
    ],
)
def test_recorded_answers_of_a_model_with_channels_are_parted_by_text(theirs, monkeypatch, capsys, text, end, reported):
    results_folder(theirs, "hub-rows", text=text)
    shipped = import_command.shipped_names(theirs.folder)
    engines = {"Owner/Model-Thinking": ShippedEngine("hub-engine", reasoning={"format": "harmony"})}
    shipped = dataclasses.replace(shipped, engines=engines)
    monkeypatch.setattr(import_command, "shipped_names", lambda root: shipped)
    loaded = read_in(theirs)
    assert reported in capsys.readouterr().out
    assert loaded["model_entries"]["mine"]["reasoning"] == {"format": "marks", "start": None, "end": end}


def test_unknown_splits_are_left_out_and_none_at_all_is_an_error():
    result, _, _ = became(CONFIG | {"dataset_splits": ["jailbreakbench", "jailbreakbenh", {"dataset_id": "a/b"}]})
    assert result.study["splits"] == ["jailbreakbench"]
    assert "did you mean `jailbreakbench`" in result.todo[-2] and "a/b" in result.todo[-1]
    with pytest.raises(UserError, match="none of `dataset_splits`"):
        became(CONFIG | {"dataset_splits": ["nothing"]})


@pytest.mark.parametrize("broken", [{}, {"model": {}}, {"model": {"x": 1}, "dataset_splits": ["jailbreakbench"]}])
def test_another_yaml_file_is_refused(broken):
    with pytest.raises(UserError, match="is missing"):
        imported(broken, "t", SHIPPED)


def test_the_command_writes_a_study_that_the_config_check_takes(theirs, capsys):
    config = changed(name_or_path="owner/model") | {"dataset_splits": ["hub-rows"], "tensor_parallel_size": 2}
    theirs.write("Theirs Qwen.yaml", config)
    assert "hub-engine" in CATALOGUE["engines"]
    assert main(["import", "Theirs Qwen.yaml"]) == 0
    reported = capsys.readouterr().out
    assert "Wrote theirs-qwen.yaml and theirs-qwen_entries.yaml" in reported
    study = yaml.safe_load((theirs.folder / "theirs-qwen.yaml").read_text())
    loaded = theirs.load(study, "again.yaml", overrides={"study": "theirs-qwen"})
    assert loaded["engine_entries"]["theirs-qwen"]["weights"]["repo"] == "owner/model"
    assert loaded["model_entries"]["theirs-qwen"]["reasoning"]["end"] == "</think>"
    assert main(["import", "Theirs Qwen.yaml"]) == 1, "nothing is written over"
    assert "is there already" in capsys.readouterr().err


def test_an_unknown_repository_becomes_a_study_that_only_lacks_its_pin(theirs):
    """`refusal-eval pin` and `refusal-eval plan` read it; a run asks for the lock file."""
    assert main(["import", "theirs.yaml"]) == 0
    study = theirs.folder / "theirs-imported.yaml"  # the config beside it is not in the way
    raw = yaml.safe_load(study.read_text()) | {"judges": ["words"]}
    config = load_study(raw, study.name, ".", open_pins=True)
    assert config["engine_entries"]["theirs-imported"]["weights"]["revision"] is None
    with pytest.raises(ConfigError, match="refusal-eval pin"):
        load_study(raw, study.name, ".")


def test_what_is_off_by_default_is_allowed_and_its_reason_reported():
    off = {"gated": "It is for readers of its terms.", "gpt-oss-20b": "Its judge has terms."}
    engines = {"Owner/Known": ShippedEngine("known-engine", off="Its weights have terms.")}
    shipped = Shipped(["jailbreakbench", "gated"], ["gpt-oss-20b"], engines, off)
    config = {"model": {"name_or_path": "Owner/Known"}, "dataset_splits": ["jailbreakbench", "gated"]}
    result = imported(config, "mine", shipped)
    assert result.study["allow"] == ["gated", "gpt-oss-20b", "mine"]
    assert all(to_do(result, why) for why in (*off.values(), "Its weights have terms."))


# ---------------------------------------------------------------- the four configs that the published library ships
# In shape, and written down from notes on that library, which has no licence; nothing of it is copied.

# Seven splits, 1,943 prompts; one config has the everyday prompts too, and none has the safe prompts of XSTest.
SPLITS = [
    *("ccp_sensitive_sampled", "deccp_censored", "jailbreakbench", "sorrybench", "xstest_unsafe"),
    *("harmbench_sampled", "adversarial_unsafe_prompts"),
]
# Name: repository, mark that its `thinking-string` gives, further splits (which config has them is a guess); then the
# engine of our catalogue and its cards.
CONFIGS = {
    "qwen3-4b-instruct-2507": ("Qwen/Qwen3-4B-Instruct-2507", None, [], "qwen3-4b-instruct", 1),
    "qwen3-next-80b-a3b-thinking": (
        *("Qwen/Qwen3-Next-80B-A3B-Thinking", "<think>", ["general_prompts"], "qwen3-next-80b-thinking", 4),
    ),
    "qwen3-next-80b-a3b-thinking-uncensored": (
        *("MultiverseComputingCAI/Qwen3-Next-80B-A3B-Thinking-Uncensored", "<think>", []),
        *("qwen3-next-80b-uncensored", 4),
    ),
    "gemma-3-4b-it": ("google/gemma-3-4b-it", None, [], "gemma-3-4b-it", 1),
}


def published(name):
    """Return a config in the shape of the published one of that name."""
    repo, mark, more, _, _ = CONFIGS[name]
    model = {"name_or_path": repo, "max_model_len": 16384, "max_new_tokens": 8192, "num_return_sequences": 5}
    model |= {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "batch_size": 256}
    judge = {"name_or_path": "openai/gpt-oss-20b", "max_model_len": 24576, "max_new_tokens": 8192}
    judge |= {"num_return_sequences": 1, "temperature": 0.6, "top_p": 0.95, "top_k": 20, "batch_size": 256}
    return {
        "dataset_splits": [*SPLITS, *more],
        "model": model | ({"thinking-string": mark} if mark else {}),
        "judge_model": judge,
        "gpu_memory_utilization": 0.9,
        "tensor_parallel_size": "auto",
        "continue_from_checkpoint": True,
        "output_dir": f"results/{name}",
    }


@pytest.mark.parametrize("name", CONFIGS)
def test_a_published_config_becomes_a_study_of_our_catalogue(name, repository, tmp_path, monkeypatch, capsys):
    """Imported by the command, on a machine without a GPU."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(import_command, "read_gpus", lambda strangers: Seen(installed=False))
    (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(published(name)), encoding="utf-8")
    assert main(["import", f"{name}.yaml", "--name", "mine"]) == 0
    raw, reported = yaml.safe_load((tmp_path / "mine.yaml").read_text(encoding="utf-8")), capsys.readouterr().out
    config = load_study(raw, "mine.yaml", str(repository), open_pins=True)
    repo, mark, more, engine, cards = CONFIGS[name]
    model, served = config["model_entries"]["mine"], config["engine_entries"]["mine"]
    assert config["splits"] == [*SPLITS, *more] and config["samples"] == 5
    assert config["judges"] == ["gpt-oss-20b"] and config["judge_entries"]["gpt-oss-20b"]["kind"] == "reasoned"
    assert served["weights"]["repo"] == repo and served["tensor_parallel"] == cards, engine
    assert (served["weights"]["revision"] is None) == name.endswith("uncensored"), "a repository that nobody saw"
    assert served["max_model_len"] == 16384 and model["sampling"]["max_tokens"] == 8192
    assert [model["sampling"][key] for key in ("temperature", "top_p", "top_k")] == [0.6, 0.95, 20]
    assert "the published code ignores them" in reported and "draws at temperature 1" in reported
    if mark:
        assert (model["reasoning"]["start"], model["reasoning"]["end"]) == ("<think>", "</think>")
        assert "<think> opens the reasoning, so it is no end mark" in reported
    else:
        assert model["reasoning"] is None and "thinking-string" not in reported
    assert "ccp_sensitive_sampled" in config["allow"] and "CC-BY-NC-4.0" in reported
    assert "read why `ccp_sensitive_sampled` is off by default" in reported


def test_no_commit_is_named_that_is_not_there(repository, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(import_command, "read_gpus", lambda strangers: Seen(installed=False))
    for name in ("qwen3-next-80b-a3b-thinking-uncensored", "gemma-3-4b-it"):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(published(name)), encoding="utf-8")
        main(["import", f"{name}.yaml", "--into", str(tmp_path / name)])
        said = capsys.readouterr().out
        open_pin = name.startswith("qwen")
        assert ("at the commit that its entry names" in said) is not open_pin
        assert ("whose entry names no commit yet" in said) is open_pin
        assert ("`refusal-eval pin" in said) is open_pin


def test_judges_whose_engine_lacks_a_pin_are_known(theirs):
    catalogue = copy.deepcopy(CATALOGUE)
    catalogue["engines"]["wheel-engine"]["weights"]["sha256"] = None
    theirs.write("config/catalogue/base.yaml", catalogue)
    unpinned = import_command.shipped_names(theirs.folder).unpinned
    assert {"reader", "guard"} <= set(unpinned) and "words" not in unpinned


def test_splits_and_judges_without_a_pin_are_something_to_do():
    shipped = dataclasses.replace(SHIPPED, unpinned={"xstest_safe", "gpt-oss-20b"})
    result, _, _ = became(shipped=shipped)
    assert to_do(result, "`xstest_safe`", "refusal-eval pin theirs.yaml")
    assert to_do(result, "`gpt-oss-20b`", "refusal-eval pin theirs.yaml")
    assert not any("at a pinned one" in text for text in result.notes)


def test_with_the_published_labels_nothing_is_said_of_a_rubric_of_ours(theirs, capsys):
    """No judge with that rubric is asked."""
    results_folder(theirs, "hub-rows", "url-rows")
    read_in(theirs)
    reported = " ".join(capsys.readouterr().out.split())
    assert "with our rubric" not in reported and "judge_model." not in reported
    assert "their scores (judge_scores.json) are the judge `mine-judge`" in reported
