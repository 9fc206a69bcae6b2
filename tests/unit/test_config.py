"""What a valid study becomes: whole, with defaults, with exactly the entries it uses, as plain JSON."""

import datetime
import json
import os

import pytest
import yaml
from config_project import CATALOGUE, COMMIT, STUDY, WHOLE_STUDY, changed
from pydantic import ValidationError

from refusal_eval.config.entries import Model
from refusal_eval.config.load_study import load_study
from refusal_eval.config.study_entry import Study, StudyConfig

SMALLEST = STUDY | yaml.safe_load(
    """
{
  description: '', primary_judge: words, gold: [], allow: [], seed: 0, determinism: seeded, batch: model, shards: 1,
  requests_in_flight: null, time_limit: null, failure_limit: 0.05, prompts_per_split: null, protocol: default,
  comparisons: null, equivalence_margin: null, p_values: exact, multiple_comparisons: holm, corrected: null,
  refusal_tokens: null, attributions: {},
  targets: null, ways_of_asking: [], attacks: null, diversity: [], generated: [],
  mixed_model: false, choices: [], figures: null, tables: [], budget: null, browser: false,
  scoring: {tau: 1.0, band: 0.1, level: 0.95}, catalogue: [],
  paper: null, plugins: [], results_dir: results, store_dir: results/store, cache_dir: .cache, private_folders: true,
  engine_entries: { hub-engine: {
    kind: vllm, weights: {kind: hub, repo: owner/model, revision: COMMIT}, dtype: bfloat16, quantization: null,
    max_model_len: 2048, tensor_parallel: 1, pipeline_parallel: 1, data_parallel: 1, nodes: 1, memory_share: 0.9,
    device: auto, args: {}, python: null, start_timeout: 1800, stall_timeout: 1800, trust_remote_code: false,
    verified: never, licence: null, gated: false, enabled: true, reason: null, terms: null, weights_gb: null,
    parameters: null, active_parameters: null, unverified: []
  }},
  model_entries: { plain: {
    engine: hub-engine, label: null, system_prompt: null, template: default, template_options: {},
    date: '2026-01-01', sampling: {max_tokens: 64, temperature: 1.0, top_p: 1.0, top_k: 0, min_p: 0.0,
    presence_penalty: 0.0, frequency_penalty: 0.0, repetition_penalty: 1.0, min_tokens: 0, stop: []},
    reasoning: null, judged_whole: false, unverified: [], intervention: null, sweep: null, prefill: null,
    lora: null, transform: null, refusal_tokens: null,
    recorded: null
  }},
  split_entries: { hub-rows: {
    source: {kind: hub, repo: owner/data, revision: COMMIT, config: null, split: test, file: null, sha256: null,
    skip_lines: 0, encoding: null}, columns: {prompt: question, messages: null, turns: null, category: null,
    cluster: null, right: null, id: null, parent: null, keep: null}, where: null, categories: null, clusters: null,
    dialogue: null, battles: null, over_refusals_in: null, weighed_against: null,
    expectation: comply, match: null, headline: null, label: null, expected_rows: null,
    expected_kept: null, sample: null, enabled: true,
    reason: null, gated: false, terms: null, licence: null, licence_of_origin: null, description: null,
    homepage: null, citation: [], unverified: []
  }},
  judge_entries: {words: {kind: keyword, lists: [words.yaml], label: null, floor: null, asked_prompt: false}},
  gold_entries: {}, directions: [], direction_entries: {}, separation: [],
}
""".replace("COMMIT", COMMIT)
)


def test_the_smallest_study_gets_every_default(project):
    """Another default would silently change what older studies measure."""
    assert project.load() == SMALLEST


def test_defaults_of_the_other_entries(project):
    config = project.load(WHOLE_STUDY)
    reader = config["judge_entries"]["reader"]
    assert {key: reader[key] for key in ("threshold", "mass_floor", "template", "date", "system_prompt")} == {
        "threshold": 0.5,
        "mass_floor": 0.5,
        "template": "default",
        "date": "2026-01-01",
        "system_prompt": None,
    }
    assert reader["labels"] == {"refusal": "A", "partial": None, "compliance": "C"}
    assert config["judge_entries"]["own"]["function"] == "judge"
    assert config["split_entries"]["file-rows"]["sample"] == {"size": 10, "seed": 0}
    assert config["gold_entries"]["people"]["columns"] == {
        "prompt": "question",
        "messages": None,
        "answer": "answer",
        "label": "label",
        "cluster": None,
        "answering_model": None,
        "expectation": None,
        "id": None,
        "language": None,
        "weight": None,
    }


def test_a_split_with_dialogues(project):
    entry = project.load(STUDY | {"splits": ["talk-rows"]})["split_entries"]["talk-rows"]
    assert entry["dialogue"] == {"mode": "cumulative", "scored": None}
    assert (entry["columns"]["prompt"], entry["columns"]["turns"]) == (None, ["question", "answer"])


def test_the_shipped_demo_is_valid(repository, monkeypatch):
    monkeypatch.chdir(repository)
    file = "config/config.yaml"
    with open(file, encoding="utf-8") as handle:
        config = load_study(yaml.safe_load(handle), file)
    assert config["study"] == "demo"
    assert (len(config["models"]), len(config["splits"]), config["samples"]) == (2, 3, 3)
    assert config["primary_judge"] == "keyword"
    assert list(config["engine_entries"]) == ["smollm2-135m"], "both models share one engine"
    assert {split["expectation"] for split in config["split_entries"].values()} == {"comply", "varies", "refuse"}


def test_a_study_is_whole(repository, project):
    """Nothing that config/config.yaml sets gets into a study that does not set it."""
    demo = yaml.safe_load((repository / "config" / "config.yaml").read_text(encoding="utf-8"))
    optional = {name: field for name, field in Study.model_fields.items() if not field.is_required()}
    only_in_demo = {key for key in demo if key in optional and key not in STUDY}
    assert len(only_in_demo) >= 3, "the demo sets keys that could leak"
    project.write("config/config.yaml", demo)
    config = project.load()
    assert config == SMALLEST
    assert not set(demo["models"]) & set(config["model_entries"])


def test_only_entries_in_use_are_in_the_config(project):
    config = project.load(STUDY | {"models": ["thinker"], "judges": ["reader"]})
    assert list(config["model_entries"]) == ["thinker"]
    assert list(config["engine_entries"]) == ["folder-engine", "wheel-engine"], "of the model and of the judge"
    assert list(config["judge_entries"]) == ["reader"]
    assert config["gold_entries"] == {}
    assert config["models"] == ["thinker"], "the lists of the study stay lists of names"


def test_the_order_of_names_is_the_users(project):
    config = project.load(WHOLE_STUDY | {"models": ["thinker", "plain"]})
    assert config["models"] == list(config["model_entries"]) == ["thinker", "plain"]


def test_the_config_is_plain_json(project):
    model = CATALOGUE["models"]["plain"] | {
        "date": datetime.date(2025, 5, 4),
        "template_options": {"today": datetime.date(2025, 5, 4), "nested": [{"at": datetime.datetime(2025, 5, 4, 3)}]},
    }
    project.write("config/catalogue/base.yaml", changed(CATALOGUE, ("models", "plain"), model))
    config = project.load()
    assert json.loads(json.dumps(config, allow_nan=False)) == config
    entry = config["model_entries"]["plain"]
    assert entry["date"] == "2025-05-04"
    assert entry["template_options"] == {"today": "2025-05-04", "nested": [{"at": "2025-05-04T03:00:00"}]}


def test_a_validated_config_cannot_be_changed(project):
    config = StudyConfig(**project.load())
    with pytest.raises(ValidationError, match="frozen"):
        config.samples = 4
    with pytest.raises(ValidationError, match="frozen"):
        config.model_entries["plain"].engine = "other"


def test_loading_does_not_change_what_snakemake_read(project):
    raw = {**STUDY, "catalogue": ["own.yaml"]}
    project.write("study.yaml", raw)
    project.write("own.yaml", "")
    before = json.dumps(raw)
    load_study(raw, "study.yaml")
    assert json.dumps(raw) == before


def test_values_of_the_command_line_count(project):
    config = project.load(overrides={"samples": 7, "scoring": {"tau": "2"}, "private_folders": False})
    assert config["samples"] == 7
    assert config["scoring"]["tau"] == 2.0, "Snakemake leaves numbers inside a mapping of --config as text"
    assert config["private_folders"] is False


# ---------------------------------------------------------------- own entries


def test_own_entries_add_and_replace(project):
    project.write(
        "mine/own.yaml",
        """
        models:
          plain: {engine: hub-engine, sampling: {max_tokens: 9}}
          mine: {engine: hub-engine, sampling: {max_tokens: 10}}
        """,
    )
    config = project.load(STUDY | {"catalogue": ["mine/own.yaml"], "models": ["plain", "mine"]})
    assert {name: entry["sampling"]["max_tokens"] for name, entry in config["model_entries"].items()} == {
        "plain": 9,
        "mine": 10,
    }
    assert config["catalogue"] == ["mine/own.yaml"]


def test_of_two_own_files_the_last_one_counts(project):
    project.write("one.yaml", {"models": {"plain": {"like": "plain", "label": "One"}}})
    project.write("two.yaml", {"models": {"plain": {"like": "plain", "system_prompt": "Two"}}})
    entry = project.load(STUDY | {"catalogue": ["one.yaml", "two.yaml"]})["model_entries"]["plain"]
    assert (entry["label"], entry["system_prompt"]) == ("One", "Two")


def test_own_files_are_looked_for_beside_the_study(project, monkeypatch):
    project.write("studies/own.yaml", {"models": {"mine": {"like": "plain"}}})
    config = project.load(STUDY | {"catalogue": ["own.yaml"], "models": ["mine"]}, file="studies/study.yaml")
    assert config["catalogue"] == ["studies/own.yaml"]


def test_like_inherits_and_merges_mappings(project):
    project.write(
        "own.yaml",
        """
        models:
          child: {like: thinker, sampling: {max_tokens: 9}, reasoning: null}
          grandchild: {like: child, label: G}
        """,
    )
    config = project.load(STUDY | {"catalogue": ["own.yaml"], "models": ["thinker", "grandchild"]})
    entry = config["model_entries"]["grandchild"]
    assert entry["engine"] == "folder-engine"
    assert (entry["sampling"]["max_tokens"], entry["sampling"]["temperature"]) == (9, 0.6)
    assert (entry["reasoning"], entry["label"]) == (None, "G")
    assert config["model_entries"]["thinker"]["sampling"]["max_tokens"] == 512, "the parent stays as it is"


def test_an_entry_changes_a_part_of_the_one_it_replaces(project):
    project.write("own.yaml", {"engines": {"folder-engine": {"like": "folder-engine", "tensor_parallel": 4}}})
    config = project.load(STUDY | {"catalogue": ["own.yaml"], "models": ["thinker"]})
    entry = config["engine_entries"]["folder-engine"]
    assert entry["tensor_parallel"] == 4
    assert entry["weights"] == {"kind": "folder", "path": "weights"}


def test_another_kind_replaces_what_is_inherited(project):
    project.write(
        "own.yaml",
        f"engines: {{e: {{like: wheel-engine, weights: {{kind: hub, repo: a/b, revision: {COMMIT}}}}}}}\n"
        "models: {m: {like: plain, engine: e}}\n",
    )
    config = project.load(STUDY | {"catalogue": ["own.yaml"], "models": ["m"]})
    assert config["engine_entries"]["e"]["weights"] == {"kind": "hub", "repo": "a/b", "revision": COMMIT}


def test_the_default_kind_may_be_written_where_the_other_entry_leaves_it_out(project):
    own = {"like": "folder-engine", "kind": "vllm", "max_model_len": 4096}
    project.write(
        "own.yaml", {"engines": {"q": {"like": "folder-engine", "tensor_parallel": 4}, "e": own | {"like": "q"}}}
    )
    project.write("models.yaml", {"models": {"m": {"like": "plain", "engine": "e"}}})
    config = project.load(STUDY | {"catalogue": ["own.yaml", "models.yaml"], "models": ["m"]})
    entry = config["engine_entries"]["e"]
    assert (entry["tensor_parallel"], entry["max_model_len"]) == (4, 4096)


def test_a_folder_with_the_name_of_a_reserved_word_is_a_folder(project):
    project.write("own.yaml", {"models": {"m": {"like": "plain", "template": "./default"}}})
    project.write("default", "{{ messages[0].content }}")
    config = project.load(STUDY | {"catalogue": ["own.yaml"], "models": ["m"]})
    assert config["model_entries"]["m"]["template"] == "./default"


def test_the_key_on_of_a_floor_needs_no_quotes(project):
    project.write("own.yaml", "judges: {w: {like: words, floor: {kappa: 0.5, on: refuse}}}\n")
    config = project.load(STUDY | {"catalogue": ["own.yaml"], "judges": ["w"], "gold": ["people"]})
    assert config["judge_entries"]["w"]["floor"]["on"] == "refuse"


def test_paths_survive_inheritance(project):
    """A path belongs to the file in which it stands, whoever inherits it and wherever the study lies."""
    project.write("far/away/own.py", "def judge(messages, answer): ...\ndef other(messages, answer): ...\n")
    project.write("far/away/parent.yaml", {"judges": {"parent": {"kind": "python", "file": "own.py"}}})
    project.write("near/rows.jsonl", "{}")
    project.write(
        "near/child.yaml",
        """
        judges: {child: {like: parent, function: other}}
        datasets:
          mine:
            defaults: {source: {kind: file}, expectation: comply}
            splits: {rows: {source: {path: rows.jsonl}}}
        """,
    )
    study = STUDY | {"catalogue": ["../far/away/parent.yaml", "../near/child.yaml"], "judges": ["child"]}
    config = project.load(study | {"splits": ["rows"]}, file="studies/study.yaml")
    assert config["judge_entries"]["child"]["file"] == "far/away/own.py"
    assert config["split_entries"]["rows"]["source"]["path"] == "near/rows.jsonl"


def test_a_source_that_two_splits_share_by_an_alias_is_read_where_it_lies(project):
    project.write("far/rows.jsonl", '{"prompt": "a"}')
    split = "{source: %s, expectation: comply}"
    one, two = split % "&rows {kind: file, path: ../far/rows.jsonl}", split % "*rows"
    project.write("near/own.yaml", f"datasets: {{mine: {{splits: {{one: {one}, two: {two}}}}}}}\n")
    config = project.load(STUDY | {"catalogue": ["near/own.yaml"], "splits": ["one", "two"]})
    assert [config["split_entries"][name]["source"]["path"] for name in ("one", "two")] == ["far/rows.jsonl"] * 2


def test_only_paths_are_treated_as_paths(project):
    """Words of a template's own variables, and files inside wheels, stay what they are."""
    options = {"path": "a/b", "template": "x", "rubric": "y", "lists": ["z"], "kind": "file"}
    entries = {"m": {"like": "plain", "template_options": options}, "base": {"like": "plain", "template": "none"}}
    project.write("own.yaml", {"models": entries})
    config = project.load(STUDY | {"catalogue": ["own.yaml"], "models": ["m", "base"], "splits": ["wheel-rows"]})
    assert config["model_entries"]["base"]["template"] == "none"
    assert config["model_entries"]["m"]["template_options"] == options
    assert config["split_entries"]["wheel-rows"]["source"]["file"] == "p/d.csv"


def test_home_and_environment_variables_in_paths(project, monkeypatch, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "j.py").write_text("def judge(messages, answer): ...\n")
    monkeypatch.setenv("HOME", str(elsewhere))
    monkeypatch.setenv("SCRATCH", "/scratch/me")
    project.write("own.yaml", {"judges": {"j": {"kind": "python", "file": "~/j.py"}}})
    study = STUDY | {
        "catalogue": ["own.yaml"],
        "judges": ["j"],
        "results_dir": "$SCRATCH/r/",
        "store_dir": "${SCRATCH}/s",
    }
    config = project.load(study)
    assert config["judge_entries"]["j"]["file"] == str(elsewhere / "j.py")
    assert (config["results_dir"], config["store_dir"]) == ("/scratch/me/r", "/scratch/me/s")


def test_the_repository_may_be_elsewhere(project, tmp_path_factory, monkeypatch):
    work = tmp_path_factory.mktemp("work")
    monkeypatch.chdir(work)
    (work / "study.yaml").write_text(yaml.safe_dump(STUDY))
    config = load_study(STUDY, "study.yaml", str(project.folder))
    assert config["judge_entries"]["words"]["lists"] == [os.path.join(project.folder, "words.yaml")]


def test_yaml_anchors_and_merge_keys_work(project):
    project.write(
        "own.yaml",
        """
        models:
          one: &one {engine: hub-engine, label: One, sampling: &short {max_tokens: 5}}
          two: {<<: *one, label: Two, sampling: {<<: *short, max_tokens: 6}}
        """,
    )
    config = project.load(STUDY | {"catalogue": ["own.yaml"], "models": ["one", "two"]})
    assert [entry["sampling"]["max_tokens"] for entry in config["model_entries"].values()] == [5, 6]


def test_every_field_is_described():
    for model in (Study, StudyConfig, Model):
        assert all(field.description for field in model.model_fields.values())
