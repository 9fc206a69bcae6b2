"""Interventions in the catalogue: what is missing or does not go together is reported with its line, all at once."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from config_project import BASE, CATALOGUE, STUDY, Project, changed

from refusal_eval.features.steering.intervention_entry import MODES, Intervention
from refusal_eval.study.study import Study
from refusal_eval.workflow import generation, scoring

STEERED = ("models", "steered")
ADD: dict[str, Any] = {"direction": "refusal", "mode": "add", "layers": [3], "scale": -0.5}
OTHER = {"other_weights": True}
STUDIED = STUDY | {"models": ["plain", "steered", "control"], "directions": ["refusal", "chance"]}
ADAPTER = {"kind": "folder", "path": "../../adapter"}


def reported(project: Project, intervention: Any, **more: Any) -> list[str]:
    """Return the mistakes of a model with an intervention and not of its control, without file and line."""
    engines = {name: CATALOGUE["engines"][name] | more.pop(name, {}) for name in CATALOGUE["engines"]}
    catalogue = changed(CATALOGUE, STEERED, CATALOGUE["models"]["steered"] | {"intervention": intervention} | more)
    return with_control(project, catalogue | {"engines": engines}, intervention, STUDIED)


def with_control(project: Project, catalogue: Any, intervention: Any, study: Any) -> list[str]:
    """Return the mistakes of a study with a control, but for those of the control itself."""
    control = {"like": "steered", "intervention": {"direction": "chance"}}
    catalogue = changed(catalogue, ("models", "control"), control)
    refusal = catalogue["directions"]["refusal"]
    fitted = "md" if refusal["method"] == "random" else refusal["method"]
    catalogue = changed(catalogue, ("directions", "chance"), refusal | {"method": "random", "of": fitted})
    project.write(BASE, catalogue)
    of_control = ("models.control.", "direction `chance`")
    return [line for line in without_lines(project.mistakes(study)) if not any(what in line for what in of_control)]


def without_lines(mistakes: list[str]) -> list[str]:
    return [line.split(": ", 1)[1] for line in mistakes]


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"layers": {"best": 2}},
        {"mode": "ablate", "scale": None},
        {"mode": "ablate", "offset": "midpoint"},
        {"mode": "gated", "gate": 0.1},
        {"mode": "pull", "towards": "positive"},
    ],
)
def test_each_mode_is_valid_with_its_keys(project: Project, change: dict[str, Any]) -> None:
    assert reported(project, ADD | change) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"mode": "adds"},
            "mode: unknown mode 'adds'; did you mean `add`? (allowed: ablate, add, constellation, gated, pull, "
            "reposition)",
        ),
        ({"scale": None}, "scale: this key is missing (Factor of the direction, in units of the difference of means"),
        ({"mode": "pull", "scale": None}, "scale: this key is missing (Share of the way, such as `0.3`)"),
        ({"mode": "gated"}, "gate: this key is missing (The cosine similarity with the direction that a token must"),
        ({"direction": None}, "direction: this key is missing (Name of a direction of the catalogue)"),
        ({"layers": None}, "layers: this key is missing (Decoder layers after which it is done, counted from 0, such"),
        (
            {"gate": 0.1},
            "gate: is for modes `gated` and `constellation` only, and this one is `add`; leave it out",
        ),
        ({"gate": "x"}, "gate: is for modes `gated` and `constellation` only, and this one is `add`; leave it out"),
        (
            {"gat": 0.1},
            "gat: unknown key `gat`; did you mean `gate`? That is for modes `gated` and `constellation` only, and this",
        ),
        (
            {"direction": ["refusal"]},
            "direction: must be text, not a list: that is for mode `constellation` only, and this one is `add`",
        ),
        ({"direction": "x y"}, "direction: 'x y' is not a name"),
        ({"direction": 3}, "direction: must be text, not 3: put it in quotes"),
        ({"offset": "midpoint"}, "offset: is for mode `ablate` only, and this one is `add`; leave it out"),
        ({"towards": "positive"}, "towards: is for mode `pull` only, and this one is `add`; leave it out"),
        ({"mode": "gated", "gate": 1.5}, "gate: must be at most 1, not 1.5"),
        ({"layers": [3, 3]}, "layers: names layer 3 twice"),
        ({"layers": []}, "layers: must not be empty"),
        ({"layers": [-1]}, "layers[0]: must be at least 0, not -1"),
        ({"layers": 3}, "layers: must be a list or a mapping of keys to values, not 3"),
        ({"layers": {"best": 0}}, "layers.best: must be at least 1, not 0"),
        ({"layers": {"bset": 2}}, "layers.bset: unknown key `bset`; did you mean `best`?"),
        (
            {"layers": {"best": 2, "by": "corelation"}},
            "layers.by: 'corelation' is not allowed; did you mean `correlation`?",
        ),
        ({"layers": {"best": 2, "drop_deepest": 1}}, "layers.drop_deepest: must be less than 1, not 1"),
        ({"scale": "much"}, "scale: must be"),
        ({"scale": {"alpha": -0.5}}, "scale: `alpha` alone has no unit: write `{alpha: -0.5, by: quantile}` for the"),
        ({"scale": {"alpha": -0.5, "by": "area"}}, "scale.by: 'area' is not allowed"),
        ({"scale": {"alpa": -0.5, "by": "quantile"}}, "scale.alpa: unknown key `alpa`; did you mean `alpha`?"),
        ({"scael": 1}, "scael: unknown key `scael`; did you mean `scale`?"),
    ],
)
def test_a_mistake_in_an_intervention_is_reported_in_one_line(
    project: Project, change: dict[str, Any], message: str
) -> None:
    (line,) = reported(project, ADD | change)
    assert line.startswith(f"models.steered.intervention.{message}")


NEUTRAL_SIDES = {
    "positive": {"split": "hub-rows", "judge": "words", "above": 0.15},
    "negative": [{"split": "hub-rows", "judge": "words", "below": -0.15}],
    "neutral": {"split": "hub-rows", "judge": "words", "within": 0.15},
}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"scale": {"alpha": -0.5, "by": "quantile"}}, "`alpha`"),
        ({"layers": {"best": 2, "by": "correlation"}}, "`by: correlation`"),
        ({"mode": "reposition"}, "`mode: reposition`"),
    ],
)
def test_what_counts_from_neutral_prompts_needs_a_direction_that_has_some(
    project: Project, change: dict[str, Any], what: str
) -> None:
    (line,) = reported(project, ADD | change)
    assert line == (
        f"models.steered.intervention.direction: `refusal` has no `neutral` prompts, and {what} counts from their "
        "mean; give it some, such as `neutral: {split: SPLIT, judge: JUDGE, within: 0.15}`"
    )
    assert with_direction(project, ADD | change, **NEUTRAL_SIDES) == []


def test_an_alpha_beside_the_scale_says_where_it_belongs(project: Project) -> None:
    (line,) = reported(project, ADD | {"scale": None, "alpha": -0.5})
    assert line == (
        "models.steered.intervention: `alpha` is a part of `scale`: write `scale: {alpha: -0.5, by: quantile}` for the "
        "step of Refusal Steering, or `scale: -0.5` for a step in units of the difference of means"
    )


def test_a_missing_mode_is_reported_with_all_modes_and_what_each_needs(project: Project) -> None:
    (line,) = reported(project, {key: value for key, value in ADD.items() if key != "mode"})
    assert line == (
        "models.steered.intervention.mode: this key is missing (allowed: ablate, add (needs scale), constellation "
        "(needs scale and gate), gated (needs scale and gate), pull (needs scale), reposition (needs scale))"
    )


@pytest.mark.parametrize(
    ("mode", "places"),
    [
        ({"mode": "pull"}, ["direction", "gate", "layers[0]", "offst", "scale"]),
        ({"mode": "pul"}, ["direction", "gate", "layers[0]", "mode", "offst", "scale"]),
        # What is wrong in every mode.
        ({"mode": "x"}, ["direction", "gate", "layers[0]", "mode", "offst"]),
        ({}, ["direction", "gate", "layers[0]", "mode", "offst"]),
    ],
)
def test_all_mistakes_are_reported_at_once(project: Project, mode: dict[str, Any], places: list[str]) -> None:
    found = reported(project, {"direction": "refusl", "layers": ["x"], "gate": 2, "offst": "midpoint", **mode})
    assert [line.removeprefix("models.steered.intervention.").split(": ")[0] for line in sorted(found)] == places
    assert "direction: there is no direction `refusl` in the catalogue; did you mean `refusal`?" in "".join(found)
    assert "offst: unknown key `offst`; did you mean `offset`?" in "".join(found)


@pytest.mark.parametrize("foreign", [{"gate": None}, {"offset": "none"}, {"towards": "negative"}])
def test_a_key_of_another_mode_that_says_nothing_may_stand_there(project: Project, foreign: dict[str, Any]) -> None:
    assert reported(project, ADD | foreign) == []


def test_an_entry_that_is_like_one_of_another_mode_takes_its_keys_away(project: Project) -> None:
    gated = ADD | {"mode": "gated", "gate": 0.1}
    added = {"like": "gated", "intervention": {"mode": "add", "gate": None}}
    both = changed(
        changed(CATALOGUE, ("models", "gated"), CATALOGUE["models"]["steered"] | {"intervention": gated}),
        STEERED,
        added,
    )
    assert with_control(project, both, added, STUDIED) == []
    assert with_control(project, changed(both, (*STEERED, "intervention"), {"mode": "add"}), added, STUDIED) == [
        "models.gated.intervention.gate: is for modes `gated` and `constellation` only, and this one is `add`; leave "
        "it out"
    ]


@pytest.mark.parametrize("mode", MODES)
def test_the_plain_form_of_each_mode_stays_as_cards_of_finished_studies_have_it(mode: str) -> None:
    asked = {"mode": mode, "layers": [3], "scale": 0.5} | ({"gate": 0.1} if "gate" in MODES[mode].model_fields else {})
    asked |= {"direction": ["mood"] if mode == "constellation" else "refusal"}
    plain = Intervention.of_plain(asked).model_dump(mode="json")
    neutral = {"gate": None, "offset": "none", "towards": "negative", "allow_overlap": False, "other_weights": False}
    order = ["direction", "mode", "layers", "scale", *neutral]
    assert list(plain.items()) == [(key, (neutral | asked)[key]) for key in order]
    assert Intervention.of_plain(plain) == Intervention.of_plain(asked)


def test_a_lora_adapter_and_an_intervention_are_refused_together(project: Project) -> None:
    (line,) = reported(project, ADD, lora=ADAPTER)
    assert (
        "a LoRA adapter and an intervention were never tried together; take weights with a LoRA adapter merged" in line
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": "float16"}, "its engine has `dtype: float16`, in which a steered stream can overflow unnoticed"),
        ({"quantization": "fp8"}, "its engine quantizes (`quantization: fp8`), and interventions were never tried"),
        ({"pipeline_parallel": 2}, "its engine has `pipeline_parallel: 2`, and interventions were never tried"),
        (
            {"tensor_parallel": 2, "nodes": 2},
            "its engine has `nodes: 2`, and interventions were never tried on several",
        ),
        ({"args": {"load-format": "bitsandbytes"}}, "its engine has `load-format` in `args`"),
        ({"args": {"speculative-config": "{}"}}, "its engine has `speculative-config` in `args`"),
        ({"args": {"worker-cls": "mine.Worker"}}, "`worker-cls` is set by the workflow and cannot be changed here"),
        ({"args": {"additional-config": "{}"}}, "`additional-config` is set by the workflow and cannot be changed"),
    ],
)
def test_engines_that_were_never_tried_are_refused(project: Project, change: dict[str, Any], message: str) -> None:
    lines = reported(project, ADD, **{"hub-engine": change})  # of the direction, whose model it serves, too
    assert any(message in line for line in lines)


def test_an_engine_of_another_kind_is_refused(project: Project) -> None:
    (line,) = reported(project, ADD | OTHER, engine="classes-engine")
    assert line == (
        "models.steered.engine: engine `classes-engine` is of kind `transformers`; this entry needs one of kind `vllm`"
    )


@pytest.mark.parametrize("config", [{"num_hidden_layers": 3}, {"text_config": {"num_hidden_layers": 3}}])
def test_a_layer_beyond_a_model_that_is_here_is_reported(project: Project, config: dict[str, Any]) -> None:
    project.write("weights/config.json", json.dumps(config))
    found = reported(project, ADD | OTHER | {"layers": [2, 3, 9]}, engine="folder-engine")
    assert found == [
        f"models.steered.intervention.layers[{at}]: the model has 3 layers, counted from 0: the last one is 2"
        for at in (1, 2)
    ]
    assert reported(project, ADD | OTHER | {"layers": {"best": 4}}, engine="folder-engine") == [
        "models.steered.intervention.layers.best: the model has 3 layers only"
    ]
    assert reported(project, ADD | {"layers": [9]}, engine="hub-engine") == []  # not known before its weights are here


@pytest.mark.parametrize("name", ["weights.json", "tokenizer_manifest.json"])
def test_a_layer_beyond_a_model_whose_copy_is_in_the_cache_is_reported(project: Project, name: str) -> None:
    project.write(BASE, changed(CATALOGUE, (*STEERED, "intervention"), ADD | {"layers": [2, 9]}))
    study = STUDIED | {"cache_dir": str(project.folder / "cache")}
    config = Study(project.load(study | {"models": ["plain"], "directions": ["refusal"]}))
    manifest = Path(config.engines["hub-engine"].weights.copy_file(config.paths.cache)).with_name(name)
    (manifest.parent / "files").mkdir(parents=True)
    (manifest.parent / "files" / "config.json").write_text('{"num_hidden_layers": 3}')
    manifest.write_text('{"folder": "files", "files": {}}')
    reported = "models.steered.intervention.layers[1]: the model has 3 layers, counted from 0: the last one is 2"
    assert reported in without_lines(project.mistakes(study))


def test_recorded_answers_cannot_be_steered(project: Project) -> None:
    (project.folder / "answers").mkdir()
    found = reported(project, ADD, recorded="../../answers")
    assert "models.steered.intervention: recorded answers are read and not drawn; leave it out" in found


def with_direction(project: Project, intervention: Any, study: Any = STUDIED, **direction: Any) -> list[str]:
    """Return the mistakes of a steered model whose direction has these keys, without file and line."""
    catalogue = changed(CATALOGUE, ("directions", "refusal"), CATALOGUE["directions"]["refusal"] | direction)
    return with_control(project, changed(catalogue, (*STEERED, "intervention"), intervention), intervention, study)


# ---------------------------------------------------------------- constellations

TASKS: dict[str, Any] = {"direction": ["refusal", "mood"], "mode": "constellation", "layers": [3], "scale": 0.3}
TASKS |= {"gate": 0.85}


def of_tasks(project: Project, change: dict[str, Any], study: Any = STUDIED, **mood: Any) -> list[str]:
    """Return the mistakes of a constellation of two directions, the second with these keys, without file and line."""
    catalogue = with_tasks(TASKS | change, **mood)
    project.write(BASE, catalogue)
    models = [*dict.fromkeys([*study["models"], "control"])]
    found = project.mistakes(study | {"models": models, "directions": list(catalogue["directions"])})
    of_control = ("models.control.", "`mood-chance`", "the study has no control")
    return [line for line in without_lines(found) if not any(what in line for what in of_control)]


def with_tasks(asked: Any, **mood: Any) -> Any:
    """Return a catalogue with a constellation, of two directions, and its control."""
    entry = CATALOGUE["directions"]["refusal"] | mood
    catalogue = changed(CATALOGUE, ("directions", "mood"), entry)
    catalogue = changed(catalogue, ("directions", "mood-chance"), entry | {"method": "random", "of": "rmd"})
    catalogue = changed(catalogue, (*STEERED, "intervention"), asked)
    names = {"refusal": "chance", "mood": "mood-chance"}
    directions = asked["direction"]
    if isinstance(directions, list):
        directions = [names.get(str(name), name) for name in directions]
    return changed(catalogue, ("models", "control", "intervention"), asked | {"direction": directions})


@pytest.mark.parametrize("change", [{}, {"layers": {"best": 2}}, {"direction": ["refusal"]}, {"allow_overlap": True}])
def test_a_constellation_of_directions_is_valid_beside_its_control(project: Project, change: dict[str, Any]) -> None:
    project.write(BASE, with_tasks(TASKS | change))
    study = STUDIED | {"directions": ["refusal", "chance", "mood", "mood-chance"]}
    assert project.mistakes(study) == []


@pytest.mark.parametrize("names", [["chance"], ["chance", "mood"], ["chance", "chance-2"]])
def test_a_control_of_a_constellation_has_a_control_of_each_of_its_tasks(project: Project, names: list[str]) -> None:
    catalogue = changed(with_tasks(TASKS, seed=1), ("models", "control", "intervention", "direction"), names)
    more = catalogue["directions"]["chance"] | {"draw": 1}
    project.write(BASE, changed(catalogue, ("directions", "chance-2"), more))
    study = STUDIED | {"directions": ["refusal", "chance", "chance-2", "mood", "mood-chance"]}
    reported = [
        line for line in project.mistakes(study) if "models.steered.intervention: the study has no control" in line
    ]
    assert len(reported) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"direction": ["refusal", "mod"]}, "direction[1]: there is no direction `mod` in the catalogue; did you mean"),
        ({"direction": ["mood", "refusal", "mood"]}, "direction: names `mood` twice"),
        ({"direction": []}, "direction: must not be empty"),
        ({"direction": ["refusal", 3]}, "direction[1]: must be text, not 3: put it in quotes"),
        (
            {"direction": "refusal"},
            "direction: must be a list of directions, one for each task: write [refusal], and name those of other",
        ),
        (
            {"gate": None},
            "gate: this key is missing (The cosine similarity with the mean of its task that a token must exceed",
        ),
        ({"scale": None}, "scale: this key is missing (Share of the way, such as `0.3`)"),
        ({"towards": "positive"}, "towards: is for mode `pull` only, and this one is `constellation`; leave it out"),
    ],
)
def test_a_mistake_in_a_constellation_is_reported_in_one_line(
    project: Project, change: dict[str, Any], message: str
) -> None:
    (line,) = of_tasks(project, change)
    assert line.startswith(f"models.steered.intervention.{message}")


def test_each_mistake_in_a_constellation_is_reported_with_the_line_of_its_direction(project: Project) -> None:
    (project.folder / "my.yaml").write_text(LINES)
    found = project.mistakes(STUDIED | {"models": ["plain", "three"], "catalogue": ["my.yaml"]})
    assert [line.split(": ")[0].rsplit(":")[-1] for line in found] == ["7", "8"]


LINES = """models:
  three:
    like: steered
    intervention:
      direction:
        - refusal
        - refusl
        - chanse
      mode: constellation
      layers: [3]
      gate: 0.5
"""


@pytest.mark.parametrize(
    ("change", "keys"),
    [
        ({"model": "thinker"}, "`model`"),
        ({"positions": "answer_mean"}, "`positions`"),
        ({"layers": [3, 5]}, "`layers`"),
        ({"layers": [3, 5], "positions": "answer_mean"}, "`positions` and `layers`"),
    ],
)
def test_directions_of_a_constellation_are_alike(project: Project, change: dict[str, Any], keys: str) -> None:
    study = STUDIED | {"models": ["plain", "steered", "thinker"]}
    found = of_tasks(project, {"other_weights": True}, study, **change)
    assert (
        f"models.steered.intervention.direction[1]: `mood` has other {keys} than `refusal`, and the means of tasks are "
        "compared with each other; fit all directions of a constellation alike"
    ) in found


def test_a_direction_of_other_weights_in_a_constellation_is_reported_where_it_is_named(project: Project) -> None:
    found = of_tasks(project, {}, model="thinker")
    assert any(
        line.startswith(
            "models.steered.intervention.direction[1]: `mood` is of model `thinker`, whose engine has other"
        )
        for line in found
    )


def test_layers_that_a_direction_of_a_constellation_lacks_are_reported(project: Project) -> None:
    catalogue = changed(CATALOGUE, ("directions", "refusal", "layers"), [5, 3])
    catalogue = changed(catalogue, ("directions", "mood"), CATALOGUE["directions"]["refusal"] | {"layers": [3, 5]})
    project.write(BASE, changed(catalogue, (*STEERED, "intervention"), TASKS | {"layers": [3, 9]}))
    study = STUDIED | {"models": ["plain", "steered"], "directions": ["refusal", "mood"]}
    assert [line for line in without_lines(project.mistakes(study)) if "no control" not in line] == [
        f"models.steered.intervention.layers[1]: direction `{name}` has no vector for it: its `layers` are 3, 5"
        for name in ("mood", "refusal")
    ]


def test_no_direction_of_a_constellation_is_made_from_an_evaluated_split(project: Project) -> None:
    study = STUDIED | {"splits": ["hub-rows", "file-rows"]}
    (line,) = of_tasks(project, {}, study, negative={"split": "file-rows"})
    assert line.startswith("models.steered.intervention.direction[1]: `mood` is made from all of split `file-rows`")
    assert of_tasks(project, {"allow_overlap": True}, study, negative={"split": "file-rows"}) == []


def test_a_constellation_needs_harmless_prompts_beside_it(project: Project) -> None:
    (line,) = of_tasks(project, {}, STUDIED | {"splits": ["wheel-rows"]})
    assert "the study has no split of harmless prompts (`expectation: comply`)" in line


@pytest.mark.parametrize("mode", [{}, {"mode": "gated", "gate": -1}, {"mode": "pull"}, {"mode": "ablate"}])
def test_each_mode_needs_a_control_and_a_random_direction_is_one(project: Project, mode: dict[str, Any]) -> None:
    assert with_direction(project, ADD | mode, method="random") == []
    assert reported(project, ADD | mode) == []
    project.write(BASE, changed(CATALOGUE, (*STEERED, "intervention"), ADD | mode))
    (line,) = project.mistakes(STUDIED | {"models": ["plain", "steered"]})
    assert "models.steered.intervention: the study has no control for it" in line
    opposite = changed(CATALOGUE, (*STEERED, "intervention"), ADD | mode | {"scale": 1.0})
    control = {"like": "steered", "intervention": {"direction": "chance", "scale": -1.0}}
    project.write(BASE, changed(opposite, ("models", "control"), control))
    found = [line for line in project.mistakes(STUDIED) if "the study has no control for it" in line]
    assert bool(found) == (mode.get("mode") in {"pull", "ablate"}), "a random vector has no sign, a place to go to has"


def test_layers_that_the_direction_does_not_capture_are_reported(project: Project) -> None:
    assert with_direction(project, ADD | {"layers": [3, 5, 9]}, layers=[5, 3]) == [
        "models.steered.intervention.layers[2]: direction `refusal` has no vector for it: its `layers` are 3, 5"
    ]
    assert with_direction(project, ADD | {"layers": {"best": 3}}, layers=[5, 3]) == [
        "models.steered.intervention.layers.best: direction `refusal` has 2 `layers` only"
    ]
    assert with_direction(project, ADD | {"layers": {"best": 2}}, layers=[5, 3]) == []


def test_a_direction_of_other_weights_is_refused_unless_the_entry_says_so(project: Project) -> None:
    config = json.dumps({"num_hidden_layers": 8})
    project.write("weights/config.json", config)
    (line,) = reported(project, ADD, engine="folder-engine")
    assert line.startswith(
        "models.steered.intervention.direction: `refusal` is of model `plain`, whose engine has other weights than this"
    )
    assert reported(project, ADD | OTHER, engine="folder-engine") == []
    assert reported(project, ADD | OTHER) == []
    twin = CATALOGUE["engines"]["hub-engine"] | {"max_model_len": 1024}
    catalogue = changed(changed(CATALOGUE, ("engines", "twin"), twin), (*STEERED, "engine"), "twin")
    catalogue = changed(catalogue, (*STEERED, "intervention"), ADD)
    assert with_control(project, catalogue, ADD, STUDIED) == []  # another engine, the same weights


def test_a_split_that_is_a_whole_side_of_the_direction_is_not_evaluated(project: Project) -> None:
    study = STUDIED | {"splits": ["hub-rows", "file-rows"]}
    assert with_direction(project, ADD, study) == []  # of both splits only some prompts, chosen by their score
    (line,) = with_direction(project, ADD, study, negative={"split": "file-rows"})
    assert line == (
        "models.steered.intervention.direction: `refusal` is made from all of split `file-rows`, which this study "
        "evaluates; evaluate other prompts, or make it from other ones"
    )


def test_overlap_is_allowed_where_the_model_says_so_and_then_marked(project: Project) -> None:
    study = STUDIED | {"splits": ["hub-rows", "file-rows"]}
    overlap = {"negative": {"split": "file-rows"}}
    assert with_direction(project, ADD | {"allow_overlap": True}, study, **overlap) == []
    config = Study(project.load(study))
    assert scoring.cell(config, "words", "steered", "hub-rows")["fitted_prompts"] is True
    assert "fitted_prompts" not in scoring.cell(config, "words", "plain", "hub-rows")
    assert generation.request_params(config, "steered", "hub-rows")["allow_overlap"] is True
    assert "allow_overlap" not in generation.request_params(config, "plain", "hub-rows")


def test_the_arrangement_of_a_paper_that_evaluates_its_own_prompts_is_accepted_as_docs_show_it(
    project: Project, repository: Path
) -> None:
    page = (repository / "docs" / "reference" / "steering.md").read_text().split("**The paper's own arrangement**")[1]
    entries, study = (yaml.safe_load(block.split("```")[0]) for block in page.split("```yaml\n")[1:3])
    assert study.pop("catalogue") == ["my_entries.yaml"]
    splits = {
        name: {
            "source": {"kind": "file", "path": "../../rows.csv"},
            "columns": {"prompt": "question", "category": "task"},
            "expectation": expectation,
        }
        for name, expectation in (("tasks", "varies"), ("harmless_test", "comply"))
    }
    catalogue = changed(CATALOGUE, ("datasets", "tasks"), {"splits": splits})
    catalogue = changed(catalogue, ("judges", "wildguard"), CATALOGUE["judges"]["guard"])
    for section, own in entries.items():
        catalogue = changed(catalogue, (section,), catalogue[section] | own)
    project.write(BASE, catalogue)
    config = Study(project.load(STUDY | study))
    for model in ("constellation", "constellation-chance"):
        assert scoring.cell(config, "wildguard", model, "tasks")["fitted_prompts"] is True
        assert generation.request_params(config, model, "tasks")["allow_overlap"] is True


def test_its_direction_is_one_of_the_catalogue_and_of_the_study(project: Project) -> None:
    (line,) = reported(project, ADD | {"direction": "refusa"})
    assert "there is no direction `refusa` in the catalogue; did you mean `refusal`?" in line
    project.write(BASE, CATALOGUE)
    (line,) = project.mistakes(STUDIED | {"directions": ["chance"]})
    assert line.endswith("intervention.direction: `refusal` is not one of the study's `directions`; add it there")


def test_a_steered_model_stands_beside_its_control_and_harmless_prompts(project: Project) -> None:
    project.write(BASE, CATALOGUE)
    (line,) = without_lines(project.mistakes(STUDIED | {"models": ["plain", "steered"]}))
    assert line.startswith(
        "models.steered.intervention: the study has no control for it: the same model and "
        "`intervention`, at the same or a larger `scale`, along a direction that differs only in `method: random` and "
        "`of`, here `of: rmd`."
    )
    found = without_lines(project.mistakes(STUDIED | {"splits": ["wheel-rows"]}))
    assert [line.split(": ")[0] for line in found] == [f"models.{name}.intervention" for name in ("steered", "control")]
    assert "the study has no split of harmless prompts (`expectation: comply`)" in found[0]


CONTROL, CHANCE = ("models", "control"), CATALOGUE["directions"]["chance"]
DOES = ({"layers": [3]}, {"mode": "ablate"}, {"direction": "refusal"}, {"scale": 0.25}, {"layers": {"best": 3}})
FITTED = ({"of": "md"}, {"positive": {"split": "url-rows"}}, {"positions": "answer_mean"}, {"seed": 1})
FITTED += ({"hold_out": 0.5}, {"ridge": {"value": 0.2}})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *(((*CONTROL, "intervention"), ADD | {"layers": {"best": 4}} | change) for change in DOES),
        ((*CONTROL, "system_prompt"), "Be brief."),
        *((("directions", "chance"), CHANCE | change) for change in FITTED),
    ],
)
def test_a_control_is_the_same_model_doing_the_same_with_another_vector_of_the_same_fit(
    project: Project, path: tuple[str, ...], value: Any
) -> None:
    project.write(BASE, changed(CATALOGUE, path, value))
    assert any("models.steered.intervention: the study has no control" in line for line in project.mistakes(STUDIED))


def test_layers_in_another_order_are_the_same(project: Project) -> None:
    catalogue = changed(CATALOGUE, ("models", "steered", "intervention", "layers"), [3, 4])
    project.write(BASE, changed(catalogue, ("models", "control", "intervention", "layers"), [4, 3]))
    assert project.mistakes(STUDIED) == []


def test_a_control_may_be_another_draw(project: Project) -> None:
    project.write(BASE, changed(CATALOGUE, ("directions", "chance", "draw"), 7))
    assert project.mistakes(STUDIED) == []
