"""Directions and separations of a study: each mistake is reported with its place, before anything runs."""

import pytest
from config_project import BASE, CATALOGUE, STUDY, changed, with_entry
from engine_entries import settings_of

from refusal_eval.ask.requests import Ask, write_requests
from refusal_eval.config.activation_use import Capture
from refusal_eval.core.files import write_json
from refusal_eval.features.separation.separation_entry import Separation
from refusal_eval.features.separation.separation_jobs import aqi_params, separation_params
from refusal_eval.study.batches import Cell
from refusal_eval.study.study import Study
from refusal_eval.workflow.activations_stage import gpus, highest_layer

PLAIN = {"model": "plain", "positive": {"split": "hub-rows"}, "negative": {"split": "file-rows"}}
WITH_ONE = STUDY | {"models": ["plain", "tuned"], "directions": ["refusal"]}
FAR = {"name": "far", "models": ["plain"], "positive": {"split": "hub-rows"}, "negative": {"split": "file-rows"}}


@pytest.mark.parametrize(
    ("entry", "place", "message"),
    [
        ({"model": "plian"}, "model", "there is no model `plian` in the catalogue; did you mean `plain`?"),
        ({"model": "thinker"}, "model", "`thinker` is not one of the study's `models`"),
        ({"model": "tuned"}, "model", "`tuned` has a LoRA adapter (`lora`); activations are those of a model without"),
        ({"positive": {"split": "hub-row"}}, "positive.split", "there is no split `hub-row` in the catalogue"),
        ({"negative": {"split": "talk-rows"}}, "negative.split", "`talk-rows` asks several turns"),
        ({"negative": {"split": "hub-rows"}}, "negative", "is the same as `positive`: two different groups"),
        ({"positive": {"split": "hub-rows", "category": "x"}}, "positive.category", "`hub-rows` has no categories"),
        (
            {"positive": {"split": "hub-rows", "judge": "own", "above": 0}},
            "positive.judge",
            "is not one of the study's",
        ),
        ({"positive": {"split": "hub-rows", "above": 0.5}}, "positive", "so `judge` must say whose"),
        (
            {"positive": {"split": "hub-rows", "judge": "words"}},
            "positive",
            "exactly one of `above`, `below` and `within`",
        ),
        (
            {"positive": {"split": "hub-rows", "without": ["file-row"]}},
            "positive.without",
            "there is no split `file-row`",
        ),
        ({"positive": {"split": "hub-rows", "without": ["hub-rows"]}}, "positive.without", "leaves out all of split"),
        ({"negative": [{"split": "hub-row"}]}, "negative[0].split", "there is no split `hub-row` in the catalogue"),
        ({"negative": [{"split": "file-rows", "abov": 1}]}, "negative[0].abov", "unknown key `abov`; did you mean"),
        (
            {"negative": [{"split": "file-rows"}, {"split": "hub-rows"}]},
            "negative[1]",
            "is the same as `positive`: two",
        ),
        ({"negative": [{"split": "file-rows"}] * 2}, "negative[1]", "is the same as `negative[0]`; leave one of both"),
        ({"negative": []}, "negative", "must not be empty"),
        (
            {"neutral": {"split": "hub-rows", "judge": "words", "within": 0.1}},
            "",
            "so each group of `positive` and `neg",
        ),
        ({"method": "mdd"}, "method", "'mdd' is not allowed; did you mean `md`?"),
        ({"method": "wmd"}, "", "`wmd` weights prompts by |c(x)|, so each side needs a `judge`"),
        ({"method": "random", "of": "wrmd"}, "", "`wrmd` weights prompts by |c(x)|, so each side needs a `judge`"),
        ({"method": "rmd", "of": "rmd"}, "", "`of` is for `random` only, and `method` is `rmd`; leave it out"),
        ({"draw": 1}, "", "`draw` is for `random` only, and `method` is `md`; leave it out"),
        ({"layers": [1, 1]}, "", "`layers` are different whole numbers from 0 on"),
        ({"hold_out": 1}, "hold_out", "must be less than 1, not 1"),
        ({"positions": "prompt_token-0"}, "positions", "or a token counted from the end of the prompt, such as"),
    ],
)
def test_a_mistake_of_a_direction_is_reported_once_with_its_place(project, entry, place, message):
    (found,) = with_entry(project, "directions", "refusal", PLAIN | entry, WITH_ONE)
    assert found.startswith(f"{BASE}:")
    assert f": directions.refusal{'.' + place if place else ''}: " in found and message in found


@pytest.mark.parametrize("method", [{"method": "rmd"}, {"method": "random", "of": "rmd"}])
def test_a_covariance_of_fewer_than_ten_prompts_is_a_mistake_where_the_config_knows_unless_it_is_allowed(
    project, method
):
    def found(size, **entry):
        study = WITH_ONE | {"prompts_per_split": {"size": size}}
        sides = {"positive": PLAIN["negative"], "negative": PLAIN["positive"]}
        return with_entry(project, "directions", "refusal", PLAIN | sides | method | entry, study)

    (mistake,) = found(10)
    words = "has at most 10 prompts, of which at least one is held out, and `rmd` needs 10"
    assert f": directions.refusal.negative: {words}" in mistake
    assert "`allow_few: true`" in mistake
    assert found(10, allow_few=True) == found(11) == found(10, method="md", of="md") == []


@pytest.mark.parametrize("dialogue", [None, {"mode": "independent"}])
def test_a_row_of_a_dialogue_may_be_more_than_one_prompt(project, dialogue):
    split = {"source": {"kind": "file", "path": "../../rows.csv"}, "expected_rows": 5, "expectation": "comply"}
    split["columns"] = {"turns": ["question", "answer"]} if dialogue else {"prompt": "question"}
    project.write(
        "own.yaml", {"datasets": {"own": {"splits": {"few": split | ({"dialogue": dialogue} if dialogue else {})}}}}
    )
    entry = PLAIN | {"method": "rmd", "negative": {"split": "few"}}
    found = with_entry(project, "directions", "refusal", entry, WITH_ONE | {"catalogue": [BASE, "own.yaml"]})
    assert any("has at most 5 prompts" in mistake for mistake in found) is (dialogue is None), found


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"quantization": "fp8"}, "its engine `hub-engine` sets `quantization`, with which capture was never tried"),
        (
            {"args": {"gdn-prefill-backend": "triton", "hf-overrides": "{}"}},
            "its engine `hub-engine` sets `args`, with which capture was never tried",
        ),
        ({"tensor_parallel": 2, "nodes": 2}, "its engine `hub-engine` takes 2 machines, and activations are captured"),
    ],
)
def test_models_whose_activations_would_be_others_are_refused(project, changes, message):
    catalogue = changed(CATALOGUE, ("directions", "refusal"), PLAIN)
    project.write(BASE, changed(catalogue, ("engines", "hub-engine"), CATALOGUE["engines"]["hub-engine"] | changes))
    (found,) = project.mistakes(WITH_ONE)
    assert f"directions.refusal.model: {message}" in found


def test_an_unknown_direction_suggests_the_nearest(project):
    (found,) = project.mistakes(STUDY | {"directions": ["refusla"]})
    assert "there is no direction `refusla` in the catalogue; did you mean `refusal`?" in found


def test_a_split_that_is_off_is_off_for_directions_too(project):
    split = {"source": {"kind": "file", "path": "../../rows.csv"}, "columns": {"prompt": "question"}}
    split |= {"expectation": "refuse", "enabled": False, "reason": "Ask first."}
    catalogue = changed(CATALOGUE, ("datasets", "asked"), {"splits": {"asked-rows": split}})
    entry = PLAIN | {"negative": {"split": "asked-rows"}}
    project.write(BASE, changed(catalogue, ("directions", "refusal"), entry))
    (found,) = project.mistakes(WITH_ONE)
    assert "directions.refusal.negative.split: `asked-rows` is off by default: Ask first" in found
    assert project.mistakes(WITH_ONE | {"allow": ["asked-rows"]}) == []


@pytest.mark.parametrize(
    ("entry", "place", "message"),
    [
        ({"models": ["plain", "thinker"]}, "[0].models[1]", "`thinker` is not one of the study's `models`"),
        ({"negative": {"split": "file-row"}}, "[0].negative.split", "there is no split `file-row` in the catalogue"),
        ({"negative": {"split": "hub-rows"}}, "[0].negative", "is the same as `positive`"),
        ({"reference": "plaim"}, "[0].reference", "`plaim` is not one of its `models`; did you mean `plain`?"),
        ({"reference": "plain"}, "[0].reference", "`models` has nothing beside `plain` to compare with it"),
        ({"layers": [-1]}, "[0]", "`layers` are different whole numbers from 0 on"),
        ({"layers": [1, 2], "aqi": {"layer": 0}}, "[0]", "`aqi.layer` is 0, which is not one of `layers`; add it"),
        ({"aqi": {"perplexity": 4}}, "[0].aqi.perplexity", "must be at least 5"),
        ({"aqi": {"gamma": 30}}, "[0].aqi.gamma", "must be at most 1"),
        ({"aqi": {"perplexty": 30}}, "[0].aqi.perplexty", "did you mean `perplexity`?"),
    ],
)
def test_a_mistake_of_a_separation_is_reported_once_with_its_place(project, entry, place, message):
    (found,) = project.mistakes(STUDY | {"separation": [FAR | entry]})
    assert f": separation{place}: " in found and message in found


@pytest.mark.parametrize(
    ("layers", "aqi", "layer"),
    [
        (None, {}, None),
        (None, {"layer": 0}, 0),
        ([0, 3, 2], {}, 3),
        ([0, 3, 2], {"layer": 0}, 0),
    ],
)
def test_composites_are_of_the_layer_that_is_named_or_the_last_that_is_captured(project, layers, aqi, layer):
    study = Study(project.load(STUDY | {"separation": [FAR | {"layers": layers, "aqi": aqi}]}))
    assert aqi_params(study, "far").items() >= {"name": "far", "layer": layer, "gamma": 0.5, "seed": 42}.items()
    assert not {"aqi", "draws", "layers"} & set(aqi_params(study, "far"))
    assert set(separation_params(study, "far")) == set(Separation.model_fields) - {"aqi", "reference"} | {"sources"}
    assert highest_layer(study, FAR["models"][0]) == max([*(layers or []), *aqi.values()], default=None)


def test_sides_of_one_file_have_one_source(project):
    study = Study(project.load(STUDY | {"separation": [FAR]}))
    sides = {FAR[side]["split"]: side for side in ("positive", "negative")}
    origins = {study.settings.split_entries[split].source.origin for split in sides}
    assert len(set(separation_params(study, "far")["sources"].values())) == len(origins)


def test_what_activations_are_asked_for_knows_the_layers_of_interventions_too(project, tmp_path):
    asked = {"direction": "refusal", "mode": "add", "scale": -0.5, "layers": [1, 99]}
    catalogue = changed(CATALOGUE, ("models", "steered", "intervention"), asked)
    project.write(BASE, changed(catalogue, ("models", "control", "intervention"), asked | {"direction": "chance"}))
    models = {"models": ["plain", "steered", "control"], "directions": ["refusal", "chance"]}
    study = Study(project.load(STUDY | models))
    assert highest_layer(study, "plain") == 99 and highest_layer(study, "steered") is None

    study.paths.results = str(tmp_path)
    config = {"hidden_size": 8, "architectures": ["LlamaForCausalLM"]}
    described = {"engine": "hub-engine", "folder": str(tmp_path), "engine_id": "e", "identity": {}}
    settings = settings_of(described, {"max_tokens": 4})
    write_requests(tmp_path / "requests.jsonl", [Ask("p", [1], [(0, 1)])], settings, 100)
    engine = study.engines["hub-engine"]
    assert engine.gpus("cuda") == 1
    object.__setattr__(engine, "device", "cuda")

    def taken(depth, **identity):
        write_json(tmp_path / "config.json", config | {"num_hidden_layers": depth})
        write_json(study.paths.of("engines", engine="hub-engine"), described | {"identity": identity})
        return gpus(study, "last_prompt_token", "plain", "hub-rows", tmp_path, str(tmp_path / "requests.jsonl"), None)

    assert taken(100) == 1
    assert taken(30) == taken(100, long_rope=True) == 0, "a sentence needs no GPU"


def test_a_separation_takes_a_steered_model_on_prompts_that_did_not_make_its_direction(project):
    study = STUDY | {"models": ["plain", "steered", "control"], "directions": ["refusal", "chance"]}
    study |= {"splits": ["file-rows"], "separation": [FAR | {"models": ["plain", "steered"]}]}
    assert project.mistakes(study) == []
    whole = changed(CATALOGUE, ("directions", "refusal"), PLAIN | {"negative": {"split": "url-rows"}})
    whole = changed(whole, ("directions", "chance"), whole["directions"]["refusal"] | {"method": "random"})
    project.write(BASE, whole)
    (found,) = project.mistakes(study)
    assert "models.steered.intervention.direction: `refusal` is made from all of split `hub-rows`, which" in found
    project.write(BASE, changed(whole, ("models", "steered", "intervention", "allow_overlap"), True))
    (found,) = project.mistakes(study)
    assert "separation[0].models[1]: `steered` sets `allow_overlap`, which a separation cannot mark" in found


def test_two_separations_need_two_names(project):
    (found,) = project.mistakes(STUDY | {"separation": [FAR, FAR | {"layers": [0]}]})
    assert "separation[1].name: two have the name `far`; their files would be the same" in found


def test_a_study_has_the_entries_that_its_directions_use_and_evaluates_its_own_splits_alone(project):
    scored = PLAIN | {"negative": {"split": "file-rows", "judge": "words", "below": -0.1}}
    project.write(BASE, changed(CATALOGUE, ("directions", "refusal"), scored))
    study = Study(project.load(STUDY | {"directions": ["refusal"], "separation": [FAR | {"layers": [2, 0]}]}))
    assert list(study.splits) == ["hub-rows"]
    assert list(study.settings.split_entries) == ["hub-rows", "file-rows"]
    assert study.further_cells == [Cell("plain", "file-rows"), Cell("plain", "file-rows", "words")]
    assert sorted(cell.split for cells in study.generation_batches.values() for cell in cells) == [
        "file-rows",
        "hub-rows",
    ]
    assert [(capture.model, capture.layers) for capture in study.captures] == [("plain", None), ("plain", [2, 0])]
    assert all(isinstance(capture, Capture) for capture in study.captures)
