"""Mistakes in one entry of the catalogue are told where they stand, with what would be right."""

import pytest
from config_project import BASE, CATALOGUE, COMMIT, STUDY, Project, changed, with_entry

from refusal_eval.config.problems import ConfigError
from refusal_eval.study.study_folder import refuse_other_study


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path)


def test_missing_keys_say_what_they_are_for(project):
    assert project.mistakes({"study": "x", "models": ["plain"], "splits": ["hub-rows"]}) == [
        "study.yaml: judges: this key is missing (Judges of the catalogue)",
        "study.yaml: samples: this key is missing (K, the answers drawn per prompt)",
    ]


def test_missing_kind(project):
    (found,) = with_entry(project, "judges", "new", {"lists": []})
    assert found.endswith(
        "judges.new.kind: this key is missing "
        "(allowed: classifier, keyword, llm, panel, python, reasoned, recorded, trained, wildguard)"
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


def test_a_branch_is_no_revision(project):
    weights = {"kind": "hub", "repo": "a/b", "revision": "main"}
    found = with_entry(project, "engines", "hub-engine", {"weights": weights, "max_model_len": 99})
    assert len(found) == 1
    assert found[0].endswith("revision: 'main' is not a full commit hash (40 hex digits); branches and tags can move")


def test_an_unknown_kind_does_not_hide_other_mistakes(project):
    source = {"kind": "hubb", "repo": "x", "revision": COMMIT, "split": "test"}
    found = with_entry(project, "gold", "people", CATALOGUE["gold"]["people"] | {"source": source})
    assert [line.split(": ", 2)[2] for line in found] == [
        "unknown kind 'hubb'; did you mean `hub`? (allowed: bundled, file, hub, url, wheel)",
        "'x' is not a repository on the hub, `owner/name`",
    ]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"anchors": [{"name": "GPT", "source": "s"}]}, "name `kappa` or `f1`, or both"),
        (
            {"anchors": [{"name": "GPT", "f1": 0.9, "reading": "three_class", "source": "s"}]},
            "`f1` is of two classes; `reading` must be `broad` or `strict`",
        ),
        (
            {"expectation": "refuse", "columns": {"expectation": "e"}},
            "`expectation` holds for all rows, `columns.expectation` for each; leave one out",
        ),
    ],
)
def test_what_gold_says_of_people_and_prompts_must_fit_together(project, more, message):
    (found,) = with_entry(project, "gold", "people", CATALOGUE["gold"]["people"] | more)
    assert found.endswith(message)


def test_gold_may_have_one_expectation_and_anchors_with_f1_alone(project):
    more = {"expectation": "refuse", "anchors": [{"name": "GPT", "f1": 0.9, "source": "s"}]}
    assert with_entry(project, "gold", "people", CATALOGUE["gold"]["people"] | more) == []


def test_reserved_fields_are_refused_until_they_are_built(project):
    for field in ("base", "transform", "intervention"):
        found = with_entry(project, "models", "plain", CATALOGUE["models"]["plain"] | {field: "x"})
        assert [line.split(": ", 1)[1] for line in found] == [
            f"models.plain.{field}: reserved for a later version; leave it out"
        ]


def test_an_adapter_must_be_at_a_commit_and_a_folder_must_hold_both_files_without_pickles(project):
    plain = CATALOGUE["models"]["plain"]

    def told(lora):
        found = with_entry(project, "models", "plain", plain | {"lora": lora})
        return [line.split(": ", 2)[2] for line in found]

    assert told({"kind": "hub", "repo": "a/b", "revision": "main"}) == [
        "'main' is not a full commit hash (40 hex digits); branches and tags can move"
    ]
    assert told("x") == ["must be a mapping with a `kind` (one of folder, hub), not 'x'"]
    (project.folder / "pickled").mkdir()
    (project.folder / "pickled" / "adapter_model.bin").write_text("x")
    assert told({"kind": "folder", "path": "../../pickled"}) == [
        "pickled has no adapter_config.json: it is not a LoRA adapter in PEFT's format",
        "pickled has no adapter_model.safetensors; adapter_model.bin is not loaded, because pickles run code",
    ]
    assert told({"kind": "folder", "path": "../../nowhere"}) == ["there is no folder nowhere"]


def test_nodes_must_share_the_gpus_equally(project):
    engine = CATALOGUE["engines"]["hub-engine"]
    for change, message in [
        ({"tensor_parallel": 6, "nodes": 4}, "6 GPUs (tensor x pipeline x data parallel) cannot be shared equally"),
        ({"nodes": 2}, "1 GPUs (tensor x pipeline x data parallel) cannot be shared equally by 2 `nodes`"),
        ({"tensor_parallel": 2, "nodes": 2, "device": "cpu"}, "`nodes` is for GPU engines"),
    ]:
        (line,) = with_entry(project, "engines", "hub-engine", engine | change)
        assert message in line
    assert with_entry(project, "engines", "hub-engine", engine | {"tensor_parallel": 8, "nodes": 2}) == []


def test_verified_is_the_word_never_or_a_day_a_version_and_a_device(project):
    engine = CATALOGUE["engines"]["hub-engine"]
    seen = {"date": "2026-11-22", "version": "0.32.0", "device": "cpu"}
    for value, told in [
        ("never", []),
        (seen, []),
        ("yes", ["verified: must be `never` or a mapping of keys to values, not 'yes'"]),
        (seen | {"version": 0.32}, ["verified.version: must be text, not 0.32: put it in quotes"]),
        ({"date": "2026-11-22", "device": "cpu"}, ["verified.version: this key is missing (Version of vLLM)"]),
    ]:
        found = with_entry(project, "engines", "hub-engine", engine | {"verified": value})
        assert [line.split("engines.hub-engine.", 1)[1] for line in found] == told


def test_arguments_that_have_a_key_of_their_own_or_belong_to_the_workflow(project):
    engine = CATALOGUE["engines"]["hub-engine"]
    for name, message in [
        ("max-model-len", "`max-model-len` has a key of its own: write it as `max_model_len` of the engine"),
        ("seed", "`seed` is set by the workflow and cannot be changed here"),
        ("enable-lora", "`enable-lora` is set by the workflow and cannot be changed here"),
        ("nnodes", "`nnodes` has a key of its own: write it as `nodes` of the engine"),
    ]:
        found = with_entry(project, "engines", "hub-engine", engine | {"args": {name: 1}})
        assert [line.split(": ", 2)[2] for line in found] == [message]


def test_a_value_that_reads_as_another_argument_is_a_mistake_with_its_place(project):
    engine = CATALOGUE["engines"]["hub-engine"]
    (line,) = with_entry(project, "engines", "hub-engine", engine | {"args": {"enforce-eager": "--model=/tmp/other"}})
    place, key, message = line.split(": ", 2)
    assert place.startswith(f"{BASE}:") and key == "engines.hub-engine.args.enforce-eager"
    assert message == "'--model=/tmp/other' begins with `-`, as another argument does; write a number without quotes"


def test_prompt_or_messages_not_both(project):
    for columns in ({"messages": "chat", "prompt": "text"}, {"prompt": None}):
        found = with_entry(
            project, "datasets", "family", changed(CATALOGUE["datasets"]["family"], ("defaults", "columns"), columns)
        )
        assert len(found) == 1 and found[0].endswith("columns: name exactly one of `prompt`, `messages` and `turns`")


SPLIT = ("splits", "talk-rows")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("dialogue",), None, "talk-rows: `columns.turns` needs `dialogue`, which says how the turns are asked"),
        (("columns",), None, "talk-rows.columns: must be a mapping of keys to values, not nothing"),
        (
            ("columns",),
            {"prompt": "question"},
            "talk-rows: `dialogue` needs `columns.turns` or `columns.messages`; `columns.prompt` is one question",
        ),
        (("columns", "turns"), ["a", "b", "a"], "columns: `turns` names the column `a` twice"),
        (("columns", "turns"), [], "columns.turns: must not be empty"),
        (("columns", "messages"), "chat", "columns: name exactly one of `prompt`, `messages` and `turns`"),
        (("dialogue", "mode"), "cumulativ", "did you mean `cumulative`? (allowed: cumulative, independent)"),
        (("dialogue", "scored"), "first", "'first' is not allowed; did you mean `after_first`?"),
        (("dialogue",), {"scored": "all"}, "dialogue.mode: this key is missing"),
    ],
)
def test_mistakes_in_dialogues(project, path, value, message):
    entry = changed(CATALOGUE["datasets"]["conversations"], (*SPLIT, *path), value)
    (found,) = with_entry(project, "datasets", "conversations", entry)
    assert message in found


@pytest.mark.parametrize(
    ("reasoning", "message"),
    [
        ({"start": "<think>"}, "`end` is missing: the mark that ends the reasoning, e.g. `</think>`"),
        ({"format": "harmony", "end": "</think>"}, "`format: harmony` has marks of its own"),
        ({"format": "qwen"}, "format: 'qwen' is not allowed (allowed: harmony, marks)"),
    ],
)
def test_mistakes_in_how_reasoning_is_told(project, reasoning, message):
    project.write(BASE, changed(CATALOGUE, ("models", "thinker", "reasoning"), reasoning))
    found = [line for line in project.mistakes(STUDY) if "models.thinker.reasoning" in line]
    assert len(found) == 1 and message in found[0]


def test_a_base_model_cannot_be_asked_several_turns(project):
    plain = CATALOGUE["models"]["plain"] | {"template": "none"}
    assert with_entry(project, "models", "plain", plain) == []
    (found,) = with_entry(project, "models", "plain", plain, STUDY | {"splits": ["hub-rows", "talk-rows"]})
    assert found.endswith(
        "models.plain.template: `none` takes one user message, but split `talk-rows` asks several turns; leave it out"
    )


def test_a_mistake_in_data_set_defaults_is_told_once_and_where_it_stands(project):
    path = ("datasets", "family", "defaults", "expectation")
    file = project.write(BASE, changed(CATALOGUE, path, "refuses"))
    line = file.read_text().splitlines().index("      expectation: refuses") + 1
    assert project.mistakes() == [
        f"{BASE}:{line}: datasets.family.defaults.expectation: 'refuses' is not allowed; did you mean `refuse`? "
        "(allowed: comply, refuse, varies)"
    ]


def test_an_inherited_mistake_is_told_once_and_where_it_stands(project):
    project.write("own.yaml", "models:\n  child: {like: parent}\n  parent:\n    like: plain\n    tempel: none\n")
    assert project.mistakes(STUDY | {"catalogue": ["own.yaml"]}) == [
        "own.yaml:5: models.parent.tempel: unknown key `tempel`; did you mean `template`? "
        "(allowed: base, date, engine, intervention, label, like, lora, reasoning, recorded, sampling, system_prompt, "
        "template, ... (15 in all))"
    ]


# ---------------------------------------------------------------- classifiers


def test_a_judge_needs_an_engine_of_its_kind(project):
    study = STUDY | {"judges": ["words", "classes"]}
    (found,) = with_entry(
        project, "judges", "classes", CATALOGUE["judges"]["classes"] | {"engine": "hub-engine"}, study
    )
    assert found.endswith(
        "judges.classes.engine: engine `hub-engine` is of kind `vllm`; this entry needs one of kind `transformers`"
    )
    (found,) = with_entry(project, "models", "plain", CATALOGUE["models"]["plain"] | {"engine": "classes-engine"})
    assert found.endswith("this entry needs one of kind `vllm`")


@pytest.mark.parametrize(
    ("key", "value"),
    [("tensor_parallel", 2), ("quantization", "fp8"), ("args", {"enforce-eager": True}), ("data_parallel", 2)],
)
def test_what_only_language_models_know_is_refused_of_classifiers(project, key, value):
    engine = CATALOGUE["engines"]["classes-engine"]
    (found,) = with_entry(project, "engines", "classes-engine", engine | {key: value})
    assert found.endswith(f"engines.classes-engine: `{key}` is for engines of kind `vllm`; leave it out")


def test_a_class_stands_for_a_label_or_for_none(project):
    judge = changed(CATALOGUE["judges"]["classes"], ("labels", "1"), "refuse")
    (found,) = with_entry(project, "judges", "classes", judge)
    assert "judges.classes.labels.1: 'refuse' is not allowed; did you mean `refusal`?" in found


@pytest.mark.parametrize("name", ["SECRET_X", "HF_TOKEN", "OPENAI_KEY", "MY_CREDENTIALS", "GITHUB_PAT", "API_KEY_2"])
@pytest.mark.parametrize("form", ["${{{}}}/x", "a/${}"])
def test_a_secret_in_a_path_is_refused_and_never_shown(project, monkeypatch, name, form):
    monkeypatch.setenv(name, "PLANTED")
    (line,) = project.mistakes(STUDY | {"results_dir": form.format(name)})
    assert f"results_dir: ${name} looks like a secret by its name" in line and "PLANTED" not in line
    found = with_entry(project, "judges", "words", {"kind": "keyword", "lists": [form.format(name)]})
    assert f"${name} looks like a secret by its name" in found[0] and "PLANTED" not in "".join(found)


def test_other_variables_stand_for_their_values_in_paths(project, monkeypatch):
    monkeypatch.setenv("SCRATCH_OF_MONKEYS", "large")
    assert project.load(STUDY | {"results_dir": "$SCRATCH_OF_MONKEYS/r"})["results_dir"] == "large/r"


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
def test_a_damaged_record_of_the_study_is_told_with_the_way_out(project, content):
    config = project.load(STUDY)
    project.write("results/small/study.json", content)
    with pytest.raises(ConfigError, match=r"results/small/study\.json is damaged.*Delete it"):
        refuse_other_study(config, "study.yaml")
