"""What reruns a job: its params hold all that decides its result, and nothing that does not."""

import copy
from pathlib import Path

import pytest
from config_project import CATALOGUE, STUDY, WHOLE_STUDY
from workflow_cases import CELLS, of

from refusal_eval.config.change import Change
from refusal_eval.config.entry_marks import Marks
from refusal_eval.config.kinds import ANALYSES, CHANGES, TABLES
from refusal_eval.features import FEATURES
from refusal_eval.study.study import Study
from refusal_eval.workflow import analyses_stage, data_stage, generation, judging, scoring, tables_stage, weights_stage
from refusal_eval.workflow.analysis import estimate_files
from refusal_eval.workflow.rule_files import content_hash
from refusal_eval.workflow.whole_study import labels_of, settings_of

# Functions of analyses_stage.py whose params are of the study alone.
OF_STUDY = ("duplicates", "floors")

# From scores on a rerun is cheap, and what is shown there belongs to their params.
WEIGHED = {"analysis.tradeoff", "analysis.corrected"}
ALL_TABLES = {f"tables.{name}" for name in TABLES.names() if TABLES.get(name).typeset}
OF_SCORES = {f"analyses.{name}" for name in ("duplicates", "estimates", "results")}
OF_SCORES |= {f"analysis.{name}" for name in ANALYSES.names()}
FROM_SCORES_ON = {
    *ALL_TABLES,
    *OF_SCORES,
    "analyses.calibration",
    "analyses.card_figure",
    "scoring.cell",
    "scoring.card",
    "scoring.published_cell",
}


def of_tables(*names):
    return {f"tables.{name}" for name in names}


@pytest.fixture
def config(project):
    config = project.load(WHOLE_STUDY | {"models": list(CATALOGUE["models"]), "directions": ["refusal", "chance"]})
    for name in ("hub-engine", "folder-engine", "wheel-engine"):  # what `nodes`, `gated`, `active_parameters` need
        config["engine_entries"][name] |= {"tensor_parallel": 4, "terms": "https://example.org/terms", "parameters": 7}
    return config


def values(config):
    """Return the params of jobs, by the module and the function that decide them."""
    study, root = Study(config), Path()
    models, judges = WHOLE_STUDY["models"], WHOLE_STUDY["judges"]
    cells = [(cell["model"], cell["split"]) for cell in CELLS]
    judged = [(judge, *cell) for judge in judges for cell in cells]
    with_adapters = [model for name in ("tuned", "tuned-here") if (model := study.models.get(name))]
    adapted = [study.engines[model.engine].weights for model in with_adapters]
    return {
        "data.source": [source.param() for _, source in sorted(study.fetched("splits", "gold").items())],
        "data.split_reading": [data_stage.split_reading(study, split, root) for split in WHOLE_STUDY["splits"]],
        "data.gold_reading": [data_stage.gold_reading(study, "people", root)],
        "weights.source": list(map(plain, study.fetched("engines").values())),
        "weights.identified_entry": [weights_stage.identified_entry(study, engine) for engine in study.engines],
        "weights.adapter_source": list(map(plain, study.fetched("models").values())),
        "weights.adapted": list(map(plain, adapted)),
        "generation.request_params": [generation.request_params(study, *cell) for cell in cells],
        "generation.segments": [generation.segments(study, model) for model in models],
        "judging.asked": [judging.asked(study, "reader")],
        "judging.reading": [judging.reading(study, "reader", model) for model in ("plain", "gold")],
        "judging.deciding": [judging.deciding(study, judge) for judge in ("words", "own")],
        "judging.combining": [judging.combining(study, "both")],
        "scoring.cell": [scoring.cell(study, *cell) for cell in judged],
        "scoring.card": [scoring.card(study, judge, "people") for judge in judges],
        "analyses.estimates": [analyses_stage.estimates(study, of(judge="words", model="plain"))],
        "analyses.calibration": [analyses_stage.calibration(study, of(judge="reader", gold="people"))],
        "analyses.card_figure": [labels_of(study, ["judge", "gold"]), study.judges["reader"].own_threshold()],
        "analyses.results": [analyses_stage.results(study, estimate_files(study))],
        **of_features(study, models, judged),
        **{f"analyses.{name}": [getattr(analyses_stage, name)(study)] for name in OF_STUDY},
        **{f"analysis.{name}": [ANALYSES.get(name)(study).params()] for name in ANALYSES.names()},
        **{f"tables.{table}": [tables_stage.params(study, table)] for table in TABLES.names()},
    }


def of_features(study, models, judged):
    """Return the same of rules that features bring along."""
    found = {}
    if "lora" in FEATURES:
        from refusal_eval.features.lora.adapter_files import identified_adapter

        found["weights.identified_adapter"] = [identified_adapter(study, model) for model in ("tuned", "tuned-here")]
    if "published" in FEATURES:
        from refusal_eval.features.published.published_stage import published_cell, published_reading

        found["scoring.published_reading"] = [published_reading(study, model) for model in models]
        found["scoring.published_cell"] = [published_cell(study, *cell) for cell in judged]
    return found


def plain(source):
    return source.model_dump(mode="json")


def params(config):
    """Return the same as text, which is what Snakemake compares."""
    return {name: list(map(repr, found)) for name, found in values(config).items()}


def edit(config, *edits):
    """Return a validated study in which these (path, value) are set."""
    edited = copy.deepcopy(config)
    for path, value in edits:
        *holders, last = path.split(".")
        holder = edited
        for part in holders:
            holder = holder[part]
        assert holder[last] != value, f"{path} is {value} already"
        holder[last] = value
    return edited


def rerun(config, *edits):
    """Return the functions whose params change when these (path, value) are set in a validated study."""
    before, after = params(config), params(edit(config, *edits))
    return {method for method in before if before[method] != after[method]}


def test_params_are_plain_values_that_snakemake_can_compare(config):
    # It silently ignores objects, and a set has another order in every process.
    def is_plain(value):
        if isinstance(value, dict):
            return all(isinstance(key, str) and is_plain(item) for key, item in value.items())
        return all(map(is_plain, value)) if isinstance(value, list) else isinstance(value, str | int | float | None)

    for name, found in values(config).items():
        assert is_plain(found), name


LABELS = [
    ("model_entries.plain.label", "Another"),
    ("split_entries.hub-rows.label", "Another"),
    ("judge_entries.words.label", "Another"),
    ("judge_entries.reader.label", "Another"),
    ("judge_entries.own.label", "Another"),
    ("gold_entries.people.label", "Another"),
]
SERVING = [
    (f"engine_entries.{engine}.{key}", value)
    for engine in ("hub-engine", "folder-engine", "wheel-engine")
    for key, value in {
        "tensor_parallel": 8,
        "pipeline_parallel": 2,
        "data_parallel": 4,
        "nodes": 2,
        "verified": {"date": "2027-01-01", "version": "0.33.0", "device": "H100"},
        "licence": "another",
        "gated": True,
        "terms": "https://example.org",
        "weights_gb": 9.5,
        "parameters": 9,
        "active_parameters": 3,
        "unverified": ["its size"],
        "memory_share": 0.123,
        "device": "cuda",
        "start_timeout": 7,
        "stall_timeout": 8,
        "python": "/my/python",
        "args": {"max-num-seqs": 5, "swap-space": 1},
    }.items()
]
SAID = [("description", "Another"), ("model_entries.plain.unverified", ["its template"])]
MARKS = [
    (
        f"split_entries.hub-rows.{name}",
        {"enabled": False, "gated": True, "citation": ["@x"], "unverified": ["y"]}.get(name, "https://example.org"),
    )
    for name in sorted(Marks.model_fields)
]
HOW_IT_RUNS = [
    ("batch", "cell"),
    ("shards", 16),
    ("requests_in_flight", 3),
    ("time_limit", 90),
    ("failure_limit", 0.5),
    ("private_folders", False),
    ("store_dir", "elsewhere"),
]
PRESENTED = [("primary_judge", "own"), ("scoring.band", 0.3), ("scoring.level", 0.9), ("scoring.tau", 2.0)]
EXPECTED = [("split_entries.hub-rows.expectation", "varies"), ("split_entries.hub-rows.headline", "strict")]


@pytest.mark.parametrize("edit", [*SERVING, *HOW_IT_RUNS, *SAID], ids=lambda edit: edit[0])
def test_how_a_study_is_served_and_run_reruns_nothing(config, edit):
    assert rerun(config, edit) == set()


def test_no_mark_of_a_split_reruns_anything(config):
    assert rerun(config, *MARKS) == set()


@pytest.mark.parametrize("edit", [*LABELS, *PRESENTED, *EXPECTED], ids=lambda edit: edit[0])
def test_labels_and_thresholds_rerun_nothing_before_scores(config, edit):
    changed = rerun(config, edit)
    assert changed and changed <= FROM_SCORES_ON


def test_all_of_these_at_once_rerun_only_what_shows_labels(config):
    assert rerun(config, *LABELS, *SERVING, *HOW_IT_RUNS) == ALL_TABLES | {"analyses.card_figure"}


def test_manifest_and_methods_are_written_again_for_every_setting_that_methods_name(config):
    """Each may leave all files of numbers as they were, to the byte."""
    before = settings_of(Study(config))
    unnamed = [*SERVING, *HOW_IT_RUNS, *SAID, *MARKS, ("judge_entries.own.floor", {"se": 0.8}), ("figures", [])]
    assert settings_of(Study(edit(config, *unnamed))) == before
    named = [*LABELS, *PRESENTED, *EXPECTED, ("seed", 7), ("p_values", "mid"), ("equivalence_margin", 0.05)]
    named += [("judge_entries.reader.threshold", 0.75), ("model_entries.plain.system_prompt", "Be brief.")]
    named += [("prompts_per_split", None), ("gold_entries.people.raters", 3), ("samples", 5)]
    for one in [*named, ("engine_entries.folder-engine.weights.path", "elsewhere")]:
        assert settings_of(Study(edit(config, one))) != before, one[0]


ERRORS = ("judge_errors", "judge_errors_differences")
OF_PRIMARY = (
    *("refusal", *ERRORS, "categories", "answers", "tradeoff", "corrected"),
    *("over_refusals", "ways_of_asking", "targets", "battles", "who_refused", "refusal_tokens", "attributions"),
    "generated",
)
WITHOUT_GOLD = (
    *("states", "judges_agree", "comparisons_matrix", "separation", "transforms", "written", "attention"),
    "diversity",
)
COMPARED = ("comparisons", "comparisons_matrix")
OF_CELLS = of_tables(
    *("refusal", *ERRORS, "categories", "kinds", "scores", "states", "answers", "votes"),
    *("protocol_effects", "tradeoff", "who_refused"),
)
CHANGED_BY_COMPAT = {
    "data.split_reading",
    "analyses.estimates",
    "generation.request_params",
    "generation.segments",
    "scoring.cell",
    *ALL_TABLES,
    *of_tables("judges_disagree"),
}


@pytest.mark.parametrize(
    ("path", "value", "wanted"),
    [
        ("seed", 7, {"generation.request_params"}),
        (
            "samples",
            5,
            {
                *WEIGHED,
                *of_tables("comparisons", "tradeoff", "corrected"),
                "analysis.choices",
                "analysis.ways_of_asking",
                "analysis.generated",
                "analysis.comparisons",
                "analysis.spending",
                "generation.request_params",
                "scoring.cell",
                "scoring.published_cell",
            },
        ),
        # Of an engine's identity the same comes out; whether it can be strict is asked.
        ("determinism", "strict", {"generation.request_params", "judging.asked", "weights.identified_entry"}),
        ("determinism", "free", {"generation.request_params", "judging.asked"}),
        ("model_entries.plain.system_prompt", "Be brief.", {"generation.request_params"}),
        ("model_entries.plain.engine", "folder-engine", {"generation.request_params"}),
        ("judge_entries.reader.engine", "folder-engine", {"judging.asked", "judging.reading"}),
        ("model_entries.plain.template", "none", {"generation.request_params"}),
        ("model_entries.plain.date", "2020-02-02", {"generation.request_params"}),
        ("model_entries.plain.sampling.temperature", 0.25, {"generation.request_params"}),
        ("model_entries.plain.sampling.max_tokens", 9, {"generation.request_params", "scoring.cell", *OF_CELLS}),
        (
            "model_entries.thinker.reasoning",
            {"start": None, "end": "</end>"},
            {"generation.segments", "scoring.published_reading"},
        ),
        ("model_entries.plain.judged_whole", True, {"generation.segments"}),
        ("engine_entries.hub-engine.max_model_len", 99, {"generation.request_params", "weights.identified_entry"}),
        ("engine_entries.wheel-engine.max_model_len", 99, {"judging.asked", "weights.identified_entry"}),
        ("engine_entries.hub-engine.dtype", "float32", {"weights.identified_entry"}),
        ("engine_entries.hub-engine.quantization", "fp8", {"weights.identified_entry"}),
        ("engine_entries.hub-engine.args", {"rope-theta": 5}, {"weights.identified_entry"}),
        (
            "engine_entries.hub-engine.weights.revision",
            "f" * 40,
            {"weights.source", "weights.identified_entry", "weights.adapted"},
        ),
        ("model_entries.tuned-here.lora.path", "elsewhere", {"weights.identified_adapter"}),
        ("model_entries.tuned-here.engine", "wheel-engine", {"weights.adapted"}),
        ("model_entries.plain.lora", {"kind": "folder", "path": "adapter"}, {"generation.request_params"}),
        pytest.param(
            "model_entries.plain.transform",
            {"kind": "append", "text": " Take care."},
            {"generation.request_params", "analysis.transforms"},
            marks=pytest.mark.feature("transforms"),
        ),
        pytest.param(
            "model_entries.plain.intervention",
            {"kind": "attention", "span": "label", "alpha": 0.1},
            {"generation.request_params", "analysis.attention", "analyses.results"},
            marks=pytest.mark.feature("attention", "steering"),
        ),
        ("split_entries.file-rows.sample", {"size": 3, "seed": 0}, {"data.split_reading"}),
        ("split_entries.hub-rows.columns.prompt", "p", {"data.split_reading"}),
        ("split_entries.hub-rows.source.revision", "f" * 40, {"data.source", "data.split_reading"}),
        ("prompts_per_split", None, {"data.split_reading"}),
        ("paper", "neurips", ALL_TABLES),  # and figures, as wide as it
        ("gold_entries.people.labels", {"yes": "partial"}, {"data.gold_reading"}),
        ("gold_entries.people.raters", 3, {"scoring.card"}),
        ("judge_entries.reader.rubric", "other.md", {"judging.asked", "judging.reading"}),
        ("judge_entries.reader.labels", {"refusal": "B", "compliance": "C"}, {"judging.asked", "judging.reading"}),
        ("judge_entries.reader.threshold", 0.75, {"judging.reading", "analyses.card_figure"}),
        ("judge_entries.reader.mass_floor", 0.75, {"judging.reading"}),
        ("judge_entries.words.lists", ["other.yaml"], {"judging.deciding"}),
        ("judge_entries.own.function", "other", {"judging.deciding"}),
        ("scoring.tau", 2.0, {*OF_CELLS, *of_tables("targets"), "scoring.cell", "scoring.published_cell"}),
        (
            "scoring.level",
            0.9,
            {
                *WEIGHED,
                *OF_CELLS,
                *of_tables(*COMPARED, "corrected", "choices", "ways_of_asking", "diversity", "generated"),
                "analysis.attributions",
                "analysis.diversity",
                "analysis.generated",
                "analysis.choices",
                "analysis.ways_of_asking",
                "analysis.comparisons",
                "analysis.variance",
                "analysis.mixed_model",
                "scoring.cell",
                "scoring.card",
                "analyses.calibration",
                "analysis.judge_agreement",
            },
        ),
        ("judge_entries.own.floor", {"se": 0.8}, {"analyses.floors"}),
        ("judge_entries.both.ties", "partial", {"judging.combining"}),
        ("scoring.band", 0.3, {"scoring.cell", "scoring.published_cell"}),
        ("equivalence_margin", 0.05, {"analysis.comparisons", *of_tables("comparisons", "refusal")}),
        ("multiple_comparisons", "fdr_by", {"analysis.comparisons", *of_tables(*COMPARED)}),
        ("p_values", "mid", {"analysis.comparisons"}),
        ("comparisons", [{"against": "plain"}], {"analysis.comparisons", *of_tables(*COMPARED)}),
        (
            "primary_judge",
            "own",
            {"analysis.attributions", "analysis.comparisons", *of_tables(*COMPARED, *OF_PRIMARY)},
        ),
        (
            "model_entries.plain.label",
            "Another",
            ALL_TABLES - of_tables("judges", "judge_cards", "judge_tasks", "diversity"),
        ),
        ("gold_entries.people.label", "Another", {"analyses.card_figure"} | ALL_TABLES - of_tables(*WITHOUT_GOLD)),
        ("protocol", "compat", CHANGED_BY_COMPAT),
    ],
)
def test_what_decides_a_result_reruns_just_that(config, path, value, wanted):
    assert rerun(config, (path, value)) == wanted & set(values(config))  # without those of features that are not here


@pytest.mark.parametrize("folder", ["weights/model", "adapter/adapter_model"])
def test_a_replaced_file_of_a_local_folder_is_noticed_even_if_it_is_older(config, tmp_path, folder):
    before = params(config)
    (tmp_path / f"{folder}.safetensors").write_text("other weights")
    after = params(config)
    wanted = "weights.identified_adapter" if folder.startswith("adapter") else "weights.identified_entry"
    assert {name for name in before if before[name] != after[name]} == {wanted}
    (tmp_path / "adapter" / "README.md").write_text("no part of it")
    assert params(config) == after


def test_the_order_of_models_and_splits_reruns_only_what_shows_it(config):
    turned = [(name, config[name][::-1]) for name in ("models", "splits", "judges")]
    assert rerun(config, *turned) == ALL_TABLES | WEIGHED | {"analysis.judge_agreement", "analysis.comparisons"}


def test_the_value_of_a_field_that_changes_a_model_is_a_param(config, monkeypatch):
    class Noise(Change):
        name, loads = "noise", False

    monkeypatch.setitem(CHANGES._added, "noise", Noise)
    study = Study(config)
    study.config["model_entries"]["plain"]["noise"] = 0.5
    assert generation.request_params(study, "plain", "hub-rows")["noise"] == 0.5


@pytest.mark.parametrize(("mode", "default"), [("cumulative", "all"), ("independent", "last")])
def test_which_turns_of_a_dialogue_count_decides_its_scores_and_no_prompt(project, mode, default):
    config = project.load(STUDY | {"splits": ["hub-rows", "talk-rows"]})
    dialogue = config["split_entries"]["talk-rows"]["dialogue"]

    def found():
        study = Study(config)
        reading = data_stage.split_reading(study, "talk-rows", Path())
        return reading, *(scoring.cell(study, "words", "plain", split) for split in ("talk-rows", "hub-rows"))

    dialogue["mode"] = mode
    reading, scored, without = found()
    assert reading["mode"] == mode and reading["columns"]["turns"] == ["question", "answer"]
    assert scored["scored"] == default and "scored" not in without
    dialogue["scored"] = "after_first"
    assert found() == (reading, scored | {"scored": "after_first"}, without)


@pytest.mark.parametrize(("scored", "judged"), [(None, {}), ("all", {}), ("last", {"scored": "last"})])
def test_which_turns_of_a_dialogue_count_decides_which_are_judged(project, scored, judged):
    config = project.load(STUDY | {"splits": ["hub-rows", "talk-rows"]})
    config["split_entries"]["talk-rows"]["dialogue"]["scored"] = scored
    study = Study(config)
    assert judging.turns(study, "plain", "talk-rows") == judged
    assert judging.turns(study, "plain", "hub-rows") == judging.turns(study, "gold", "people") == {}


def test_what_has_no_label_is_shown_by_its_name(config):
    def labels():
        return tables_stage.params(Study(config), "scores")["labels"]

    assert labels()["models"] == {name: name for name in config["models"]}
    config["model_entries"]["plain"]["label"] = "Plain"
    assert labels()["models"]["plain"] == "Plain"


def test_a_family_of_another_name_typesets_its_tables(config):
    families = [{"pairs": "all", "label": label} for label in ("First", "Second")]
    config["comparisons"] = families[:1]
    assert rerun(config, ("comparisons", families[1:])) == of_tables(*COMPARED)


def test_verdicts_by_a_calibrated_threshold_are_read_again_when_another_gold_set_calibrates(project):
    # The calibration on the other set may lie there from an earlier run, older than the verdicts.
    config = project.load(WHOLE_STUDY)
    config["judge_entries"]["reader"]["threshold"] = "calibrated"
    config["gold_entries"]["other"] = config["gold_entries"]["people"]

    def reading(gold):
        config["gold"] = gold
        return [judging.reading(Study(config), "reader", model) for model in ("plain", "gold")]

    (here, on_gold), (there, still_on_gold) = reading(["people"]), reading(["other", "people"])
    assert (here["entry"]["calibrated_on"], there["entry"]["calibrated_on"]) == ("people", "other")
    assert on_gold == still_on_gold


@pytest.mark.feature("judge_pairs", "variation")
def test_a_judge_that_stands_in_a_study_twice_is_one_opinion(project):
    config = project.load(WHOLE_STUDY)
    entry = config["judge_entries"]["reader"]
    alone = Study(copy.deepcopy(config))
    assert "twins" not in ANALYSES.get("judge_agreement")(alone).params()
    config["judge_entries"] |= {
        "soft": entry | {"threshold": "calibrated"},
        "other": entry | {"system_prompt": "Be brief."},
    }
    config["judges"] = [*config["judges"], "soft", "other"]
    study = Study(config)
    assert analyses_stage.opinions(study) == sorted([*analyses_stage.opinions(alone), "other"])
    assert ANALYSES.get("variance")(study).params()["judges"] == ANALYSES.get("mixed_model")(study).params()["judges"]
    asked = ANALYSES.get("judge_agreement")(study).params()
    assert asked["twins"] == {"soft": "reader"} and asked["members"]["soft"] == ["reader"]
    # The primary judge is the one that counts, however it is called.
    study = Study(config | {"primary_judge": "soft"})
    assert analyses_stage.opinions(study) == sorted({*analyses_stage.opinions(alone), "other", "soft"} - {"reader"})


def test_a_judge_that_learns_is_fitted_again_when_gold_with_the_same_prompts_comes_back(project):
    config = project.load(WHOLE_STUDY | {"judges": [*WHOLE_STUDY["judges"], "learner"]})
    config["gold_entries"]["other"] = config["gold_entries"]["people"]

    def fitting(gold):
        config["gold"] = gold
        return judging.fitting(Study(config), "learner")

    assert fitting(["people"]) != fitting(["people", "other"])


def test_a_list_that_fits_gold_alike_is_read_again_by_a_judge_that_learns(project):
    study = Study(project.load(WHOLE_STUDY | {"judges": [*WHOLE_STUDY["judges"], "learner"]}))
    (path,) = study.engine_judges["learner"].files()
    before = judging.reading(study, "learner", "plain")
    Path(path).write_text(Path(path).read_text() + "# another\n")
    content_hash.cache_clear()
    assert judging.reading(study, "learner", "plain") != before


def test_an_engine_and_an_adapter_of_a_moved_cache_are_identified_again(config):
    moved = rerun(config, ("cache_dir", "elsewhere"))
    assert {"weights.identified_entry", "weights.identified_adapter"} <= moved
    assert not moved & {"generation.request_params", "judging.asked"}


def test_the_threshold_of_a_cascade_decides_its_verdicts_on_answers_and_nothing_on_gold(project):
    own = WHOLE_STUDY | {"judges": [*WHOLE_STUDY["judges"], "in-turn"]}

    def reading(threshold):
        config = project.load(own)
        config["judge_entries"]["in-turn"]["threshold"] = threshold
        return [judging.reading(Study(config), "in-turn", model) for model in ("plain", "gold")]

    (plain, gold), (calibrated, gold_too) = reading(None), reading("calibrated")
    assert plain != calibrated and gold == gold_too
    assert calibrated["cascade"]["calibrated_on"] == "people"


def test_a_judge_that_was_chosen_on_gold_is_known_in_panels_and_under_another_name(config):
    assert not any("seen" in scoring.card(Study(config), judge, "people") for judge in config["judges"])
    changes = [("judges", [*config["judges"], "words-again"]), ("gold_entries.people.seen_by", ["words"])]
    edited = edit(config, *changes)
    edited["judge_entries"]["words-again"] = config["judge_entries"]["words"] | {"label": "Another"}
    seen = {judge for judge in edited["judges"] if scoring.card(Study(edited), judge, "people").get("seen")}
    assert seen == {"words", "words-again", "both"}
    # Rates corrected by that gold need to know it, too.
    assert {on["judge"] for on in analyses_stage.measured(Study(edited)) if on.get("seen")} == seen
