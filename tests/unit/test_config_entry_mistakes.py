"""Mistakes in one entry of the catalogue are reported where they stand, with what would be right."""

import re

import pytest
from config_project import BASE, CATALOGUE, STUDY, changed, with_entry

ENGINE = CATALOGUE["engines"]["hub-engine"]


def test_missing_keys_say_what_they_are_for(project):
    assert project.mistakes({"study": "x", "models": ["plain"], "splits": ["hub-rows"]}) == [
        "study.yaml: judges: this key is missing (Judges of the catalogue)",
        "study.yaml: samples: this key is missing (K, the answers drawn per prompt)",
    ]


def test_missing_kind(project):
    (kind,) = with_entry(project, "judges", "new", {"lists": []})
    assert kind.endswith(
        "judges.new.kind: this key is missing "
        "(allowed: cascade (needs first, then and unsure), classifier (needs engine, template and labels), "
        "first_token (needs engine and refusal), keyword (needs lists), llm (needs engine, rubric and labels), "
        "panel (needs members), python (needs file), qwen3guard (needs engine), reasoned (needs engine and rubric), "
        "recorded, trained (needs features), wildguard (needs engine))"
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("three", "must be a whole number, not 'three'"),
        (2.5, "must be a whole number, not 2.5"),
        (True, "must be a whole number, not true"),
        (None, "must be a whole number, not nothing"),
        ([3], "must be a whole number, not a list"),
        (0, "must be at least 1, not 0"),
    ],
)
def test_wrong_types_say_what_is_right(project, value, message):
    assert project.mistakes(STUDY | {"samples": value}) == [f"study.yaml:6: samples: {message}"]


def test_words_that_yaml_does_not_read_as_text(project):
    study = "study: 2024\nmodels: [plain]\nsplits: [hub-rows]\nsamples: 1\njudges: [no]\ndescription: 2024-05-04\n"
    assert project.mistakes(study) == [
        "study.yaml:1: study: must be text, not 2024: put it in quotes",
        "study.yaml:5: judges[0]: must be text, not false: put it in quotes",
        "study.yaml:6: description: must be text, not the day 2024-05-04: put it in quotes",
    ]


HUB_ENGINE, CLASSES_ENGINE = ("engines", "hub-engine"), ("engines", "classes-engine")
PLAIN, REASONING, PEOPLE = ("models", "plain"), ("models", "thinker", "reasoning"), ("gold", "people")
FAMILY, TALK = ("datasets", "family"), ("datasets", "conversations", "splits", "talk-rows")
MEASURED, CODED = ("gold", "measured"), ("datasets", "coded", "splits", "coded-rows")
HARM = (*MEASURED, "flags", "harm")
SEEN = {"date": "2026-11-22", "version": "0.32.0", "device": "cpu"}
NO_COMMIT = "revision: 'main' is not a full commit hash (40 hex digits); branches and tags can move"
ONE_KIND_OF_PROMPT = "columns: name exactly one of `prompt`, `messages` and `turns`"
EXPECTED = {"columns": {"expectation": "e"}, "expectation": "refuse"}
BY_VLLM = "is for engines of kind `vllm`; leave it out"
SET = "is set by the workflow and cannot be changed here"
SHARED = "GPUs (tensor x pipeline x data parallel) cannot be shared equally"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ((*HUB_ENGINE, "weights"), {"kind": "hub", "repo": "a/b", "revision": "main"}, NO_COMMIT),
        ((*PLAIN, "lora"), {"kind": "hub", "repo": "a/b", "revision": "main"}, NO_COMMIT),
        ((*PLAIN, "lora"), "x", "must be a mapping with a `kind` (one of folder, hub), not 'x'"),
        ((*PLAIN, "lora"), {"kind": "folder", "path": "../../nowhere"}, "there is no folder nowhere"),
        (
            (*PLAIN, "intervention"),
            "x",
            "models.plain.intervention: must be a mapping with a `mode` (one of ablate, add,",
        ),
        (
            (*PLAIN, "sampling", "temperature"),
            0.001,
            "vLLM raises a temperature between 0 and 0.01 to 0.01; write 0 for greedy decoding, or at least 0.01",
        ),
        (
            (*PLAIN, "sampling", "max_tokens"),
            2048,
            "2048 leaves no room for a prompt: `max_model_len` of its engine is",
        ),
        *(
            (
                (*PLAIN, "template_options"),
                {name: False},
                f"`{name}` is no variable of a chat template that you can set",
            )
            for name in ("add_generation_prompt", "tokenize", "return_dict", "messages", "continue_final_message")
        ),
        (
            PLAIN,
            CATALOGUE["models"]["plain"] | {"template": "none", "template_options": {"enable_thinking": False}},
            "models.plain: `template_options` are for a chat template, and `template: none` has none; leave one out",
        ),
        (
            ("judges", "reader"),
            CATALOGUE["judges"]["reader"] | {"template": "none", "template_options": {"enable_thinking": False}},
            "judges.reader: `template_options` are for a chat template, and `template: none` has none; leave one out",
        ),
        ((*PLAIN, "engine"), "classes-engine", "this entry needs one of kind `vllm`"),
        ((*PEOPLE, "denied_premises"), ["denied"], "`denied_premises` names 'denied', which `labels` does not map"),
        ((*PEOPLE, "anchors"), [{"name": "GPT", "source": "s"}], "name `kappa` or `f1`, or both"),
        (
            (*PEOPLE, "anchors"),
            [{"name": "GPT", "f1": 0.9, "reading": "three_class", "source": "s"}],
            "`f1` is of two classes; `reading` must be `broad` or `strict`",
        ),
        (
            PEOPLE,
            CATALOGUE["gold"]["people"] | EXPECTED,
            "`expectation` holds for all rows, `columns.expectation` for each; leave one out",
        ),
        # What gold knows beside refusals, and names of categories
        ((*HARM, "raised"), "no", "gold.measured.flags.harm: `raised` and `not_raised` are both `no`"),
        ((*HARM, "raised"), True, "gold.measured.flags.harm.raised: must be text, not true: put it in quotes"),
        ((*HARM[:-1],), ["harm"], "gold.measured.flags: must be a mapping of keys to values, not a list"),
        (HARM, {"column": "label", "raised": "yes"}, "gold.measured.flags.harm.not_raised: this key is missing"),
        (
            (*MEASURED, "anchors"),
            [{"name": "GPT", "f1": 0.9, "flag": "harmm", "source": "s"}],
            "`anchors` has one of the flag `harmm`, which `flags` does not name; did you mean `harm`?",
        ),
        (
            (*MEASURED, "anchors"),
            [{"name": "GPT", "f1": 0.9, "slice": "onee", "source": "s"}],
            "`anchors` has one of the slice `onee`, which `slices` does not name; did you mean `one`?",
        ),
        ((*MEASURED, "slices", "names"), {}, "gold.measured.slices.names: must not be empty"),
        ((*MEASURED, "slices", "names"), {True: "one"}, "this key must be text, not true: put it in quotes"),
        ((*MEASURED, "slices"), "label", "gold.measured.slices: must be a mapping of keys to values, not 'label'"),
        ((*CODED, "categories"), {}, "coded-rows.categories: must not be empty"),
        ((*CODED, "categories"), {1: "one"}, "this key must be text, not 1: put it in quotes"),
        ((*CODED, "categories"), ["one"], "coded-rows.categories: must be a mapping of keys to values, not a list"),
        (
            (*CODED, "columns"),
            {"prompt": "question"},
            "coded-rows: `categories` needs `columns.category`: the column with the values that it names",
        ),
        # Engines
        (HUB_ENGINE, ENGINE | {"tensor_parallel": 6, "nodes": 4}, f"6 {SHARED}"),
        (HUB_ENGINE, ENGINE | {"nodes": 2}, f"1 {SHARED} by 2 `nodes`"),
        (HUB_ENGINE, ENGINE | {"tensor_parallel": 2, "nodes": 2, "device": "cpu"}, "`nodes` is for GPU engines"),
        ((*HUB_ENGINE, "verified"), "yes", "verified: must be `never` or a mapping of keys to values, not 'yes'"),
        (
            (*HUB_ENGINE, "verified"),
            SEEN | {"version": 0.32},
            "verified.version: must be text, not 0.32: put it in quotes",
        ),
        (
            (*HUB_ENGINE, "verified"),
            {"date": "2026-11-22", "device": "cpu"},
            "verified.version: this key is missing (Version of vLLM)",
        ),
        (
            (*HUB_ENGINE, "args"),
            {"max-model-len": 1},
            "`max-model-len` has a key of its own: write it as `max_model_len` of the engine",
        ),
        ((*HUB_ENGINE, "args"), {"nnodes": 1}, "`nnodes` has a key of its own: write it as `nodes` of the engine"),
        ((*HUB_ENGINE, "args"), {"seed": 1}, f"`seed` {SET}"),
        ((*HUB_ENGINE, "args"), {"enable-lora": 1}, f"`enable-lora` {SET}"),
        (
            (*HUB_ENGINE, "args"),
            {"enforce-eager": "--model=/tmp/other"},
            "engines.hub-engine.args.enforce-eager: '--model=/tmp/other' begins with `-`, as another argument does; "
            "write a number without quotes",
        ),
        (
            (*HUB_ENGINE, "args"),
            {"max-num-seqs": "auto"},
            "engines.hub-engine.args: `max-num-seqs` must be a whole number, at least 1, not 'auto'",
        ),
        ((*HUB_ENGINE, "args"), {"max-num-seqs": -3}, "`max-num-seqs` must be a whole number, at least 1, not -3"),
        (
            (*HUB_ENGINE, "args"),
            {"max-num-batched-tokens": 0.5},
            "`max-num-batched-tokens` must be a whole number, at least 1, not 0.5",
        ),
        (
            (*HUB_ENGINE, "args"),
            {"enforce-eager": True, "no-enforce-eager": True},
            "engines.hub-engine.args: the engine's args give `enforce-eager` twice",
        ),
        (
            (*HUB_ENGINE, "args"),
            {"enable-prefix-caching": "false"},
            "`enable-prefix-caching` is the text 'false'; write false without quotes",
        ),
        ((*HUB_ENGINE, "args"), {"max-num-seq": 8}, "`max-num-seq` is short for `max-num-seqs`; write arguments in"),
        # What only language models know
        ((*CLASSES_ENGINE, "tensor_parallel"), 2, f"engines.classes-engine: `tensor_parallel` {BY_VLLM}"),
        ((*CLASSES_ENGINE, "quantization"), "fp8", f"engines.classes-engine: `quantization` {BY_VLLM}"),
        ((*CLASSES_ENGINE, "args"), {"enforce-eager": True}, f"engines.classes-engine: `args` {BY_VLLM}"),
        ((*CLASSES_ENGINE, "data_parallel"), 2, f"engines.classes-engine: `data_parallel` {BY_VLLM}"),
        # Judges
        (
            ("judges", "classes", "labels", "1"),
            "refuse",
            "judges.classes.labels.1: 'refuse' is not allowed; did you mean `refusal`?",
        ),
        (
            ("judges", "reader", "labels"),
            {"refusal": "A", "partial": "B", "compliance": "B"},
            "judges.reader.labels: the labels must differ from each other, not 'A', 'B', 'B'",
        ),
        # Columns and dialogues
        ((*FAMILY, "defaults", "columns"), {"messages": "chat", "prompt": "text"}, ONE_KIND_OF_PROMPT),
        ((*FAMILY, "defaults", "columns"), {"prompt": None}, ONE_KIND_OF_PROMPT),
        ((*TALK, "dialogue"), None, "talk-rows: `columns.turns` needs `dialogue`, which says how the turns are asked"),
        ((*TALK, "columns"), None, "talk-rows.columns: must be a mapping of keys to values, not nothing"),
        (
            (*TALK, "columns"),
            {"prompt": "question"},
            "talk-rows: `dialogue` needs `columns.turns` or `columns.messages`; `columns.prompt` is one question",
        ),
        ((*TALK, "columns", "turns"), ["a", "b", "a"], "columns: `turns` names the column `a` twice"),
        ((*TALK, "columns", "turns"), [], "columns.turns: must not be empty"),
        ((*TALK, "columns", "messages"), "chat", ONE_KIND_OF_PROMPT),
        (
            (*TALK, "dialogue", "mode"),
            "cumulativ",
            "did you mean `cumulative`? (allowed: alone, cumulative, independent)",
        ),
        ((*TALK, "dialogue", "scored"), "first", "'first' is not allowed; did you mean `after_first`?"),
        ((*TALK, "dialogue"), {"scored": "all"}, "dialogue.mode: this key is missing"),
        # Reasoning
        (REASONING, {"start": "<think>"}, "`end` is missing: the mark that ends the reasoning, e.g. `</think>`"),
        (REASONING, {"format": "harmony", "end": "</think>"}, "`format: harmony` has marks of its own"),
        ((*REASONING[:2], "judged_whole"), True, "`judged_whole` is for models without `reasoning`; leave one of them"),
        (REASONING, {"format": "qwen"}, "format: 'qwen' is not allowed (allowed: harmony, marks)"),
    ],
)
def test_a_mistake_in_an_entry_is_reported_with_its_place(project, path, value, message):
    (found,) = with_entry(project, *path[:2], changed(CATALOGUE, path, value)[path[0]][path[1]])
    assert found.startswith(f"{BASE}:") and message in found


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (HUB_ENGINE, ENGINE | {"tensor_parallel": 8, "nodes": 2}),
        ((*HUB_ENGINE, "verified"), "never"),
        ((*HUB_ENGINE, "verified"), SEEN),
        ((*PEOPLE, "expectation"), "refuse"),
        ((*PEOPLE, "anchors"), [{"name": "GPT", "f1": 0.9, "source": "s"}]),
    ],
)
def test_what_is_right_is_no_mistake(project, path, value):
    assert with_entry(project, *path[:2], changed(CATALOGUE, path, value)[path[0]][path[1]]) == []


def test_a_folder_of_an_adapter_must_hold_both_files_and_pickles_are_not_loaded(project):
    project.write("pickled/adapter_model.bin", "x")
    lora = {"kind": "folder", "path": "../../pickled"}
    found = with_entry(project, *PLAIN, CATALOGUE["models"]["plain"] | {"lora": lora})
    assert [line.split(": ", 2)[2] for line in found] == [
        "pickled has no adapter_config.json: it is not a LoRA adapter in PEFT's format",
        "pickled has no adapter_model.safetensors; adapter_model.bin is not loaded, because pickles run code",
    ]


def test_a_base_model_cannot_be_asked_several_turns(project):
    plain = CATALOGUE["models"]["plain"] | {"template": "none"}
    assert with_entry(project, "models", "plain", plain) == []
    (found,) = with_entry(project, "models", "plain", plain, STUDY | {"splits": ["hub-rows", "talk-rows"]})
    assert found.endswith(
        "models.plain.template: `none` takes one user message, but split `talk-rows` asks several turns; leave it out"
    )


# ---------------------------------------------------------------- classifiers


def test_a_judge_needs_an_engine_of_its_kind(project):
    study = STUDY | {"judges": ["words", "classes"]}
    (found,) = with_entry(
        project, "judges", "classes", CATALOGUE["judges"]["classes"] | {"engine": "hub-engine"}, study
    )
    assert found.endswith(
        "judges.classes.engine: engine `hub-engine` is of kind `vllm`; this entry needs one of kind `transformers`"
    )


@pytest.mark.parametrize("name", ["SECRET_X", "HF_TOKEN", "OPENAI_KEY", "MY_CREDENTIALS", "GITHUB_PAT", "API_KEY_2"])
@pytest.mark.parametrize("form", ["${{{}}}/x", "a/${}"])
def test_a_secret_in_a_path_is_refused_and_never_shown(project, monkeypatch, name, form):
    monkeypatch.setenv(name, "PLANTED")
    (line,) = project.mistakes(STUDY | {"results_dir": form.format(name)})
    assert f"results_dir: ${name} looks like a secret by its name" in line and "PLANTED" not in line
    found = with_entry(project, "judges", "words", {"kind": "keyword", "lists": [form.format(name)]})
    assert f"${name} looks like a secret by its name" in found[0] and "PLANTED" not in "".join(found)


def test_a_name_has_a_bounded_length(project):
    assert project.mistakes(STUDY | {"study": "a" * 100}) == []
    (line,) = project.mistakes(STUDY | {"study": "a" * 300})
    assert "is not a name: at most 100 lower-case letters" in line and len(line) < 300


def test_a_file_where_a_folder_is_to_be_is_a_mistake(project):
    project.write("results/small", "x")
    (line,) = project.mistakes(STUDY)
    assert line == "study.yaml:1: study: results/small is there and is no folder; move it away, or choose another name"
    project.write("file", "x")
    for key in ("results_dir", "store_dir", "cache_dir"):
        found = project.mistakes(STUDY | {"study": "other", key: "file/below"})
        assert any(f"{key}: file is there and is no folder" in line for line in found)


@pytest.mark.parametrize(
    "content", ["", "[]", "3", "{}", '{"file": 3}', '{"file": "a\\u0000b"}', '{"file": "here.yaml"}', "[" * 100_000]
)
def test_a_damaged_record_of_the_study_is_reported_with_the_way_out(project, content):
    project.write("results/small/study.json", content)
    (line,) = project.mistakes(STUDY)
    assert re.search(r"^study\.yaml:1: study: results/small/study\.json is damaged.*Delete it", line)
