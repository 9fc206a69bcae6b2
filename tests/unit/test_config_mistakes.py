"""Every mistake is reported at once, with its line, what is allowed, and the nearest valid name."""

import json
import os
import shutil
import sys
import typing
from pathlib import Path

import pandas as pd
import pytest
import yaml
from config_project import (
    BASE,
    CATALOGUE,
    FIGURES,
    OF_ACTIVATIONS,
    PLAIN_ENGINE,
    STUDY,
    UNFOCUSED,
    WHOLE_STUDY,
    changed,
    with_entry,
)
from config_reference import TITLES

from refusal_eval.config.catalogue import SECTIONS, DatasetInside
from refusal_eval.config.load_study import load_study, study_values
from refusal_eval.config.problems import ConfigError, dotted
from refusal_eval.config.shapes import fields_of, is_entry, kind_key, kinds_of, leaves
from refusal_eval.config.study_entry import Study
from refusal_eval.features import FEATURES

# ---------------------------------------------------------------- all at once

BROKEN = Path(__file__).parent / "test_config_broken"


# Sources of rows, keys and models that may be meant.
@pytest.mark.feature("recorded_logs", "occluded", "judged", "written", "controlled", "transforms")
def test_all_mistakes_of_a_thoroughly_broken_study(project):
    for name in ("my.yaml", "my.py"):
        shutil.copy(BROKEN / name, name)
    found = project.mistakes((BROKEN / "study.yaml").read_text(encoding="utf-8"))
    assert found == (BROKEN / "mistakes.txt").read_text(encoding="utf-8").splitlines()


# ---------------------------------------------------------------- misspelt keys, generated from the classes


STEERED = CATALOGUE["models"]["steered"]
OF_MODES = {
    **{"gated": {"gate": 0.1}, "pull": {}, "ablate": {}, "constellation": {"gate": 0.1, "direction": ["refusal"]}},
    "reposition": {"scale": {"alpha": -0.5, "by": "quantile"}},
}
MODELS = {
    name: STEERED | {"intervention": STEERED["intervention"] | {"mode": name} | own} for name, own in OF_MODES.items()
}
# Of all other classes it is another entry that is misspelt: later ones count.
LOGGED = {"logged": {"recorded": {"file": "../../answers.jsonl", "model": "one"}}}
WORDS = {"attributed": CATALOGUE["models"]["plain"] | {
    "transform": {"kind": "append", "text": " Not {focus}.", "focus": {"attribution": "words"}},
}} if {"attributions", "transforms"} <= set(FEATURES) else {}  # fmt: skip
ATTENTION = {"unfocused": UNFOCUSED} if {"attention", "eager", "steering"} <= set(FEATURES) else {}
LOGS = {"logs": {"splits": {"logged-rows": {
    "source": {"kind": "recorded", "path": "../../answers.jsonl", "split": "one"}, "columns": {"messages": "messages"},
    "expectation": "comply",
}}}} if "recorded_logs" in FEATURES else {}  # fmt: skip
WITH_MODES = CATALOGUE | {
    "engines": ({"plain-engine": PLAIN_ENGINE} if "eager" in FEATURES else {}) | CATALOGUE["engines"],
    "models": LOGGED | ATTENTION | WORDS | CATALOGUE["models"] | MODELS,
    "datasets": LOGS | CATALOGUE["datasets"],
}
WITH_FIGURES = WHOLE_STUDY | OF_ACTIVATIONS | {"figures": FIGURES}
if "refusal_tokens" in FEATURES:
    WITH_FIGURES |= {"refusal_tokens": {"thresholds": [0.5]}}
if "tradeoff" in FEATURES:
    WITH_FIGURES |= {"attacks": {"splits": ["wheel-rows"], "judge": "own", "succeeds": ["harmful"]}}
if "attributions" in FEATURES:
    of_words = {"model": "plain", "split": "kept-rows", "score": "refusal_start", "method": "leave_one_out"}
    WITH_FIGURES |= {"attributions": {"words": of_words | {"refusal": ["I"], "focus": "label"}}}
if {"generated", "judged"} <= set(FEATURES):
    WITH_FIGURES |= {"splits": [*WITH_FIGURES["splits"], "refused-rows", "kept-rows"]}
    WITH_FIGURES |= {"generated": [{"split": "refused-rows", "seeds": "kept-rows"}]}
if "choices" in FEATURES:
    WITH_FIGURES |= {"choices": [{"name": "best", "against": "plain", "models": ["steered"], "refusals": ["hub-rows"],
                                  "others": ["file-rows"], "tau": 0.5}]}  # fmt: skip


def places(annotation, value, path=()):
    """Yield each mapping of a value with the class that describes it."""
    kinds = [leaf for leaf, _ in leaves(annotation) if is_entry(leaf) and kinds_of(leaf)]
    said = {kind_key(leaf) for leaf in kinds if isinstance(value, dict) and kind_key(leaf) in value}  # `mode` or `kind`
    for leaf, _ in leaves(annotation):
        if is_entry(leaf) and isinstance(value, dict):
            if kinds_of(leaf) and said and kind_key(leaf) not in said:
                continue
            if kinds_of(leaf) and value.get(kind_key(leaf), kinds_of(leaf)[0]) not in kinds_of(leaf):
                continue
            yield leaf, path
            for name, hint in fields_of(leaf).items():
                yield from places(hint, value.get(name), (*path, name))
        elif typing.get_origin(leaf) is dict and isinstance(value, dict):
            for key, item in value.items():
                yield from places(typing.get_args(leaf)[1], item, (*path, key))
        elif typing.get_origin(leaf) is list and isinstance(value, list):
            for index, item in enumerate(value):
                yield from places(typing.get_args(leaf)[0], item, (*path, index))


def all_places():
    """Return {class: (file, path of one mapping of that class)}."""
    found = {entry: ("study.yaml", path) for entry, path in places(Study, WITH_FIGURES)}
    for section, annotation in SECTIONS.items():
        for name, value in WITH_MODES[section].items():
            found |= {entry: (BASE, (section, name, *path)) for entry, path in places(annotation, value)}
            if section == "datasets":
                inside = places(DatasetInside, value)
                found |= {entry: (BASE, (section, name, *p)) for entry, p in inside if entry is not DatasetInside}
    return found


PLACES = all_places()
OTHERS = f"(allowed: {', '.join(sorted(CATALOGUE['models']))})"


def typos(name):
    """Return misspellings of a key: a letter doubled, two swapped, one left out."""
    middle = len(name) // 2
    yield name[:middle] + name[middle - 1] + name[middle:]
    if len(name) > 3:
        yield name[:middle] + name[middle + 1 :]
        swapped = name[: middle - 1] + name[middle] + name[middle - 1] + name[middle + 1 :]
        yield from [swapped] if swapped != name else []


def test_every_class_has_a_place_to_misspell_its_keys():
    assert set(PLACES) == set(TITLES)


@pytest.mark.parametrize("entry", TITLES, ids=lambda entry: entry.__name__)
def test_a_misspelt_key_is_caught_and_the_right_one_suggested(project, entry):
    file, path = PLACES[entry]
    whole = WITH_FIGURES if file == "study.yaml" else WITH_MODES
    holder = whole
    for part in path:
        holder = holder[part]
    # All keys in one way at a time, but for `kind`, which says which keys there are.
    ways = [dict(zip(names, way, strict=True)) for names in grouped(entry) for way in ways_of(names)]
    for typo_of in ways:
        misspelt = {key: value for key, value in holder.items() if key not in typo_of}
        misspelt |= {typo: holder.get(name, 1) for name, typo in typo_of.items()}
        broken = changed(whole, path, misspelt)
        project.write(BASE, CATALOGUE if file == "study.yaml" else broken)
        found = project.mistakes(broken if file == "study.yaml" else WHOLE_STUDY)
        for name, typo in typo_of.items():
            reported = [line for line in found if f"unknown key `{typo}`; did you mean `{name}`?" in line]
            assert len(reported) == 1, (typo, found)
            assert reported[0].startswith(f"{file}:") and f"{dotted((*path, typo))}: unknown key" in reported[0]
        assert not any("missing" in line for line in found), (typo_of, found)


def grouped(entry):
    """Return the keys of a class that can be misspelt together."""
    names = list(fields_of(entry))
    return [[name for name in names if name != "kind"], *([["kind"]] if "kind" in names else [])]


def ways_of(names):
    """Return ways to misspell these keys, each of them in each of its own ways at least once."""
    own = [list(typos(name)) for name in names]
    return [[each[way % len(each)] for each in own] for way in range(max(map(len, own), default=0))]


# ---------------------------------------------------------------- names


def test_unknown_names_suggest_the_nearest(project):
    study = WHOLE_STUDY | {"models": ["thinkr"], "splits": ["file-row"], "judges": ["raeder"], "gold": ["pepole"]}
    assert [line.split(": ", 2)[2].partition(" (allowed: ")[0] for line in project.mistakes(study)] == [
        "there is no model `thinkr` in the catalogue; did you mean `thinker`?",
        "there is no split `file-row` in the catalogue; did you mean `file-rows`?",
        "there is no judge `raeder` in the catalogue; did you mean `reader`?",
        "there is no gold `pepole` in the catalogue; did you mean `people`?",
    ]


def test_keys_given_twice(project):
    assert project.mistakes(yaml.safe_dump(STUDY, sort_keys=False) + "samples: 5\n") == [
        "study.yaml:9: samples: this key stands twice (first in line 6); YAML would keep the last one only"
    ]
    project.write("own.yaml", "models:\n  a: {like: plain}\n  b: {like: plain, like: thinker}\n  a: {like: plain}\n")
    assert [line.split(": ", 2)[:2] for line in project.mistakes(STUDY | {"catalogue": ["own.yaml"]})] == [
        ["own.yaml:3", "models.b.like"],
        ["own.yaml:4", "models.a"],
    ]


@pytest.mark.parametrize(("written", "read"), [("2:00:00", "7200"), ("1:30", "90"), ("0100", "64")])
def test_a_number_that_yaml_reads_to_another_base_is_a_mistake(project, written, read):
    # A limit meant as two hours would be one of five days.
    assert project.mistakes(yaml.safe_dump(STUDY, sort_keys=False) + f"time_limit: {written}\n") == [
        f"study.yaml:9: time_limit: YAML reads {written} as {read}: write that number, or put {written} in quotes"
    ]


def test_a_key_that_yaml_reads_as_no_text_is_a_mistake(project):
    assert project.mistakes(yaml.safe_dump(STUDY, sort_keys=False) + "yes: 1\n") == [
        "study.yaml: a key must be text, not true: put it in quotes"
    ]
    judge = {"like": "words", "floor": {"kappa": 0.5, False: 1}}
    (reported,) = with_entry(project, "judges", "w", judge, STUDY | {"judges": ["w"]})
    assert reported.endswith("judges.w.floor: a key must be text, not false: put it in quotes")


def test_a_number_with_noughts_in_front_that_means_the_same_to_both_bases_is_no_mistake(project):
    assert project.load(yaml.safe_dump(STUDY, sort_keys=False) + "time_limit: 007\n")["time_limit"] == 7


def test_entries_with_one_label_could_not_be_told_apart(project):
    model = {"like": "plain", "label": "thinker"}
    (found,) = with_entry(project, "models", "two", model, STUDY | {"models": ["thinker", "two"]})
    assert found.endswith("models.two.label: `thinker` has the label 'thinker' too; tables need different ones")


@pytest.mark.parametrize("models", [["thinker", "mine"], ["mine", "thinker"]])
def test_an_inherited_label_is_a_mistake_of_the_entry_that_inherits_it(project, models):
    labelled = CATALOGUE["models"]["thinker"] | {"label": "Thinker"}
    project.write(BASE, changed(CATALOGUE, ("models", "thinker"), labelled))
    project.write("own.yaml", {"models": {"mine": {"like": "thinker", "system_prompt": "x"}}})
    (found,) = project.mistakes(STUDY | {"models": models, "catalogue": ["own.yaml"]})
    assert found == (
        "own.yaml:2: models.mine: `mine` inherits the label 'Thinker' of `thinker`; give it a `label` of its own"
    )


def test_two_shipped_files_define_one_entry(project):
    project.write("config/catalogue/other.yaml", {"models": {"plain": CATALOGUE["models"]["plain"]}})
    assert project.mistakes() == [f"config/catalogue/other.yaml:2: models.plain: {BASE} defines it too"]


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"a": "a"}, "there is no other entry 'a' in `models` " + OTHERS),
        ({"b": "c", "c": "a", "a": "b"}, "the entries inherit from each other in a circle: a -> b -> c -> a"),
        ({"z": "a", "a": "b", "b": "a"}, "the entries inherit from each other in a circle: a -> b -> a"),
        ({"a": 3}, "there is no other entry 3 in `models` " + OTHERS),
    ],
)
def test_inheritance_that_leads_nowhere(project, entries, message):
    project.write("own.yaml", {"models": {name: {"like": parent} for name, parent in entries.items()}})
    found = project.mistakes(STUDY | {"catalogue": ["own.yaml"]})
    assert [line.split(": ", 2)[2] for line in found] == [message]


# ---------------------------------------------------------------- files


def test_a_file_that_is_not_yaml(project):
    assert project.mistakes("study: x\nmodels: [a\nsplits: [b]\n") == [
        "study.yaml:3: is not valid YAML: did not find expected ',' or ']'"
    ]
    assert project.mistakes("study: x\nsamples:\n  - 2026-13-45\n") == [
        "study.yaml:3: is not valid YAML: month must be in 1..12"
    ]
    (tab,) = project.mistakes("study: x\nmodels:\n\t- a\n")
    assert tab.startswith("study.yaml:3: is not valid YAML: ") and "indent with spaces, not tabs" in tab
    (colon,) = project.mistakes("study: x\ndescription: What: why\n")
    assert colon.startswith("study.yaml:2: is not valid YAML: ") and "put a text with `: ` in quotes" in colon
    assert project.mistakes("- a\n- b\n") == ["study.yaml:1: must be a mapping of keys to values"]


def test_a_broken_study_file_does_not_hide_mistakes_of_the_catalogue(project):
    project.write(BASE, changed(CATALOGUE, ("engines", "hub-engine", "dtype"), "int3"))
    found = project.mistakes("study: [")
    assert [line.split(":")[0] for line in found] == [BASE, "study.yaml"]


def test_files_that_cannot_be_read(project):
    project.write("bad.yaml", "models: {\n")
    (project.folder / "latin.yaml").write_bytes(b"models: {a: {label: \xe9}}\n")
    (project.folder / "folder.yaml").mkdir()
    study = STUDY | {"catalogue": ["bad.yaml", "latin.yaml", "folder.yaml", "bat.yaml"], "models": ["of-bad"]}
    assert project.mistakes(study) == [
        "bad.yaml:2: is not valid YAML: did not find expected node content",
        "latin.yaml: is not UTF-8 text: invalid continuation byte at byte 20",
        "study.yaml:12: catalogue[2]: folder.yaml is a folder, not a file",
        "study.yaml:13: catalogue[3]: there is no file bat.yaml; did you mean `bad.yaml`?",
    ], "and a name that may be in such a file is no mistake"
    with pytest.raises(ConfigError, match=r"gone.yaml: cannot be read: No such file or directory"):
        load_study(STUDY, "gone.yaml")


def test_unknown_sections(project):
    project.write("own.yaml", "modles: {}\nstudy: x\nengines: [a]\n")
    assert project.mistakes(STUDY | {"catalogue": ["own.yaml"]}) == [
        "own.yaml:1: modles: unknown section `modles`; did you mean `models`? "
        "(allowed: datasets, directions, engines, gold, judges, models)",
        "own.yaml:2: study: unknown section `study` (allowed: datasets, directions, engines, gold, judges, models)",
        "own.yaml:3: engines: must be a mapping of names to entries, not a list",
    ]


@pytest.mark.parametrize(("key", "belongs"), [("temperature", "`sampling`"), ("scale", "`intervention` or `sweep`")])
def test_a_key_one_level_too_high(project, key, belongs):
    (found,) = with_entry(project, "models", "mine", {"like": "plain", key: 0.5})
    assert found.endswith(f"models.mine.{key}: unknown key `{key}`: it belongs in {belongs}")


def test_a_slip_in_a_key_is_no_key_of_another_level(project):
    found = project.mistakes(STUDY | {"figures": [{"kind": "histograms", "name": "c", "judges": ["words"]}]})
    assert len(found) == 1 and "did you mean `judge`?" in found[0], found


def test_entries_in_the_study_and_splits_outside_a_data_set(project):
    project.write("own.yaml", "splits: {}\n")
    assert project.mistakes(STUDY | {"catalogue": ["own.yaml"], "scoring": {}, "tau": 2, "datasets": {}}) == [
        "own.yaml:1: splits: unknown section `splits`: it belongs in an entry of `datasets`",
        "study.yaml:12: tau: unknown key `tau`: it belongs in `scoring`",
        "study.yaml:13: datasets: unknown key `datasets`: it belongs in a file of your own that `catalogue` names",
    ]
    assert project.mistakes(STUDY | {"catalogue": "own.yaml", "models": ["of-own"]}) == [
        "study.yaml:9: catalogue: must be a list, not 'own.yaml': write [own.yaml]"
    ], "and no name is a mistake"


def test_an_empty_section_is_fine(project):
    project.write("own.yaml", "models:\nengines: {}\n")
    assert project.mistakes(STUDY | {"catalogue": ["own.yaml"]}) == []


def test_mistakes_of_the_command_line_are_reported_as_such(project):
    found = project.mistakes(overrides={"samples": 0, "models": ["plane"], "sampels": 3})
    assert [line.partition("; did")[0] for line in found] == [
        "--config: models[0]: there is no model `plane` in the catalogue",
        "--config: sampels: unknown key `sampels`",
        "--config: samples: must be at least 1, not 0",
    ]


def test_files_that_entries_name_must_be_there(project):
    for name in ("words.yaml", "rubric.md", "rows.csv", "config/prompts/shipped.jsonl", "own.py"):
        (project.folder / name).unlink()
    found = [line.split(": ", 1)[1] for line in project.mistakes(WHOLE_STUDY)]
    assert found == [
        "datasets.family.splits.file-rows.source.path: there is no file rows.csv",
        "datasets.family.splits.bundled-rows.source.file: there is no `shipped.jsonl` in config/prompts "
        "(allowed: none)",
        "judges.words.lists[0]: there is no file words.yaml",
        "judges.reader.rubric: there is no file rubric.md",
        "judges.own.file: there is no file own.py",
        "gold.people.source.path: there is no file rows.csv",
    ]
    assert project.mistakes(STUDY | {"judges": ["own"], "models": ["plane"]})[-1].startswith("study.yaml:3"), (
        "files are looked for although other things are wrong"
    )


def test_a_rubric_that_shows_no_answer(project):
    project.write("rubric.md", "Judge {{ prompt }}.")
    (found,) = project.mistakes(STUDY | {"judges": ["reader"]})
    assert "judges.reader.rubric: " in found and "{{ answer }}" in found


def test_files_of_entries_that_are_not_used_may_be_absent(project):
    (project.folder / "rubric.md").unlink()
    assert project.mistakes(STUDY) == []


def test_folders_without_weights(project):
    study = STUDY | {"models": ["thinker"]}
    for name, message in [
        ("model.safetensors", "weights has no *.safetensors file: the weights are missing"),
        ("tokenizer.json", "weights has no tokenizer (tokenizer.json or tokenizer.model)"),
        ("config.json", "weights has no config.json: it is not a model folder"),
    ]:
        (project.folder / "weights" / name).rename(project.folder / "aside")
        (found,) = project.mistakes(study)
        assert found.endswith(f"engines.folder-engine.weights.path: {message}")
        (project.folder / "aside").rename(project.folder / "weights" / name)
    os.rename("weights", "elsewhere")
    (found,) = project.mistakes(study)
    assert found.endswith("weights.path: there is no folder weights")


def test_templates_and_programs_must_be_there(project):
    project.write(
        "own.yaml",
        "models: {m: {like: plain, template: Default, engine: e}}\n"
        "engines: {e: {like: hub-engine, python: envs/mine/bin/python}}\n",
    )
    assert project.mistakes(STUDY | {"catalogue": ["own.yaml"], "models": ["m"]}) == [
        "own.yaml:1: models.m.template: there is no file Default; did you mean `default`?",
        "own.yaml:2: engines.e.python: there is no folder envs/mine/bin",
    ]


def test_a_template_of_json_or_of_another_encoding_is_a_mistake(project):
    project.write("own.yaml", "models: {m: {like: plain, template: chat_template.json}}\n")
    study = STUDY | {"catalogue": ["own.yaml"], "models": ["m"]}
    for text, encoding, says in (
        ('{"chat_template": "x"}', "utf-8", "is JSON, no Jinja template: all of it would be sent to the model"),
        ('"{{ messages }}"', "utf-8-sig", "is JSON, no Jinja template"),
        ("{{ messages }}", "utf-16", "is not UTF-8"),
    ):
        (project.folder / "chat_template.json").write_text(text, encoding=encoding)
        (found,) = project.mistakes(study)
        assert found.startswith("own.yaml:1: models.m.template: chat_template.json " + says)
    (project.folder / "chat_template.json").write_text("{{ messages }}", encoding="utf-8-sig")
    assert project.mistakes(study) == []


def test_python_judges_need_their_function(project):
    judge = {"kind": "python", "file": "../../own.py", "function": "jugde"}
    with_entry(project, "judges", "own", judge, STUDY | {"judges": ["own"]})
    project.write("own.py", "x = 1\ndef judge(:\n")
    (found,) = project.mistakes(STUDY | {"judges": ["own"]})
    assert found.endswith("judges.own.file: own.py is not valid Python (line 2)")
    project.write("own.py", "async def jugde(messages, answer):\n    return 'refusal'\n")
    (found,) = project.mistakes(STUDY | {"judges": ["own"]})
    assert "judges.own.function: `jugde` in own.py is `async`; write a function that" in found
    project.write("own.py", "from elsewhere import jugde\n")
    assert project.mistakes(STUDY | {"judges": ["own"]}) == []


# ---------------------------------------------------------------- between keys


def test_settings_that_draw_are_no_greedy_ones(project):
    drawn = {"temperature": 0.1, "top_p": 0.1, "min_p": 0.5, "top_k": 2}
    model = changed(CATALOGUE["models"]["plain"], ("sampling",), {"max_tokens": 9} | drawn)
    assert with_entry(project, "models", "plain", model) == []


def test_greedy_answers_cannot_be_sampled_more_than_once(project):
    for sampling, reported in [
        ({"temperature": 0}, "temperature 0"),
        ({"temperature": 0.0}, "temperature 0"),
        ({"top_k": 1}, "top_k 1"),
        ({"temperature": 0.01}, "temperature 0.01"),
        ({"min_p": 1.0}, "min_p 1"),
        ({"min_p": 0.99}, "min_p 0.99"),
        ({"top_p": 1e-6}, "top_p 1e-06"),
        ({"top_p": 0.01}, "top_p 0.01"),
    ]:
        model = changed(CATALOGUE["models"]["plain"], ("sampling",), {"max_tokens": 9} | sampling)
        (found,) = with_entry(project, "models", "plain", model)
        assert found.endswith(f"{reported} gives the same answer every time, so `samples` must be 1 (it is 3)")
        assert with_entry(project, "models", "plain", model, STUDY | {"samples": 1}) == []
        # `compat` draws at temperature 1, whatever the entry says.
        compat = with_entry(project, "models", "plain", model, STUDY | {"protocol": "compat"})
        assert not any("the same answer every time" in line for line in compat)
        assert with_entry(project, "models", "plain", model, STUDY | {"models": ["thinker"]}) == []


def test_results_must_not_lie_in_the_store(project):
    assert project.mistakes(STUDY | {"study": "store"}) == [
        "study.yaml:1: study: the results would lie in results/store, inside `store_dir`; choose another name"
    ]


def test_the_store_must_not_lie_in_the_results(project):
    (found,) = project.mistakes(STUDY | {"store_dir": "results/small/store"})
    assert found.startswith("study.yaml:") and ": store_dir: the store would lie in results/small, whose files" in found
    assert project.mistakes(STUDY | {"store_dir": "results/small-store"}) == []


@pytest.mark.parametrize("key", ["results_dir", "store_dir", "cache_dir"])
@pytest.mark.parametrize(("name", "pattern"), [("a{b}", "{"), ("runs/*", "*")])
def test_a_folder_must_not_be_a_pattern(project, key, name, pattern):
    (found,) = project.mistakes(STUDY | {key: name})
    assert found.endswith(f"{key}: `{pattern}` in the name of a folder is a pattern to Snakemake; choose another name")


@pytest.mark.parametrize("name", ["${NOT_SET_ANYWHERE}/x", "$NOT_SET_ANYWHERE"])
def test_a_variable_that_is_not_set_is_reported_once(project, name):
    (found,) = project.mistakes(STUDY | {"results_dir": name})
    assert "the environment variable" in found and "is not set" in found
    rows = ("datasets", "family", "splits", "file-rows", "source", "path")
    project.write(BASE, changed(CATALOGUE, rows, f"{name}.csv"))
    (found,) = project.mistakes(STUDY | {"splits": ["file-rows"]})
    assert "the environment variable" in found and "is not set" in found


@pytest.mark.parametrize("other", ["other.yaml", "config/other.yml"])
def test_two_files_of_one_name_and_different_content(project, other):
    project.write(other, STUDY | {"samples": 9})
    assert project.mistakes() == [
        f"study.yaml:1: study: {other} has the same study name `small` and other content; rename one of them"
    ]


@pytest.mark.parametrize(
    ("repo", "said"),
    [
        ("Owner/model", "this is a repository on the hub; the catalogue has it as model `plain`: write that"),
        ("owner/other", "no model of the catalogue has it: `refusal-eval new --model owner/other` writes a study"),
    ],
)
def test_a_repository_named_as_a_model_leads_to_the_model_or_to_new(project, repo, said):
    found = project.mistakes(STUDY | {"models": [repo]})
    assert any(f"study.yaml:2: models[0]: {said}" in one or said in one for one in found), found


def test_copies_of_a_study_beside_it_are_one_line_behind_all_others(project):
    for number in range(5):
        project.write(f"old_{number}.yaml", STUDY | {"samples": 9 + number})
    found = project.mistakes(STUDY | {"smaples": 2})
    assert len(found) == 2 and "unknown key `smaples`" in found[0]
    assert found[1] == (
        "study.yaml:1: study: old_0.yaml, old_1.yaml, old_2.yaml and 2 more have the same study name `small` and other "
        "content; rename all but one of them"
    )


def test_who_only_looks_at_a_study_is_warned_of_its_copies(project):
    project.write("old.yaml", STUDY | {"samples": 9})
    said: list[str] = []
    file = str(project.write("study.yaml", STUDY))
    load_study(study_values(file), file, str(project.folder), warn=said.append)
    assert len(said) == 1 and "old.yaml has the same study name `small`" in said[0]


@pytest.mark.parametrize("other", ["beside.yaml", "../elsewhere/study.yaml"])
def test_results_of_another_file_of_that_name_are_a_mistake_among_the_others(project, other):
    path = os.path.realpath(project.write(other, STUDY | {"samples": 9}))
    project.write("results/small/study.json", json.dumps({"file": path, "study": "small"}))
    shown = other if other == "beside.yaml" else path
    found = project.mistakes(STUDY | {"smaples": 2})
    assert len(found) == 2
    assert found[1] == (
        f"study.yaml:1: study: the results in results/small belong to {shown}, which has the same study name `small` "
        "and other content; rename one of them"
    )


@pytest.mark.parametrize("became", ["gone", "renamed", "the same", "a" * 300])
def test_results_follow_a_study_file_that_was_moved_copied_or_renamed(project, became):
    other = project.folder / f"{became}.yaml"
    if became in ("renamed", "the same"):
        project.write(other.name, STUDY | ({"study": "another"} if became == "renamed" else {}))
    project.write("results/small/study.json", json.dumps({"file": str(other), "study": "small"}))
    assert project.mistakes() == []


def test_a_copy_of_a_study_is_no_mistake(project):
    project.write("copy.yaml", "# the same\n" + yaml.safe_dump(STUDY))
    project.write("config/other.yaml", STUDY | {"study": "other"})
    project.write("unrelated.yaml", "study: [\n")
    project.write("list.yaml", "- study\n")
    os.symlink("study.yaml", "link.yaml")
    assert project.mistakes() == []


def test_a_name_given_on_the_command_line_is_compared_too(project):
    project.write("other.yaml", STUDY | {"study": "other"})
    assert project.mistakes(overrides={"study": "other"}) == [
        "--config: study: other.yaml has the same study name `other` and other content; rename one of them"
    ]


def test_messages_are_one_line_each(project):
    odd = "two\nlines \x85 and \u2028 more " + "x" * 200
    study = STUDY | {"determinism": odd, odd: 1, "models": [odd]}
    found = project.mistakes(study)
    assert len(found) == 3 + 1  # the name is also not a valid one
    assert all(len(line) < 1200 and line.isprintable() for line in found)


def test_what_the_published_code_fixes_or_cannot_do_is_reported(project):
    study = STUDY | {"protocol": "compat", "splits": ["talk-rows"], "scoring": {"tau": 0.5, "band": 0.1}}
    assert project.mistakes(study) == [
        "study.yaml:9: protocol: `compat` asks one question per prompt, but split `talk-rows` asks several turns",
        "study.yaml:11: scoring.tau: is 1 under `protocol: compat`; leave it out",
    ]


def test_channels_are_not_for_the_published_protocol_which_would_weigh_the_reasoning(project):
    model = {"like": "plain", "reasoning": {"format": "harmony"}}
    project.write(BASE, changed(CATALOGUE, ("models", "open"), model))
    study = STUDY | {"models": ["open"]}
    assert project.mistakes(study) == []
    (line,) = project.mistakes(study | {"protocol": "compat"})
    assert "models.open.reasoning.format: under `protocol: compat`, which knows no channels, c(x) would weigh" in line


def free_text_judge(**changes):
    return CATALOGUE["judges"]["writer"] | {"form": "published", "retries": 0} | changes


def test_a_judge_whose_text_is_searched_is_for_the_published_protocol_alone(project):
    project.write(BASE, changed(CATALOGUE, ("judges", "writer"), free_text_judge()))
    study = STUDY | {"judges": ["writer"]}
    (reported,) = project.mistakes(study)
    assert (
        "judges.writer.form: `published` searches a free text for a word, which only `protocol: compat` does"
        in reported
    )
    loaded = project.load(study | {"protocol": "compat"})
    assert loaded["judge_entries"]["writer"]["label"] == "writer (last match)", "every table says how it is read"
    project.write(BASE, changed(CATALOGUE, ("judges", "writer"), free_text_judge(label="GPT")))
    assert project.load(study | {"protocol": "compat"})["judge_entries"]["writer"]["label"] == "GPT (last match)"


def test_a_free_text_counts_as_it_is_and_tells_no_kinds(project):
    study = STUDY | {"judges": ["writer"], "protocol": "compat"}
    project.write(BASE, changed(CATALOGUE, ("judges", "writer"), free_text_judge(retries=2)))
    (reported,) = project.mistakes(study)
    assert "write `votes: 1` and `retries: 0`" in reported
    project.write(BASE, changed(CATALOGUE, ("judges", "writer"), free_text_judge()))
    (reported,) = project.mistakes(study | {"figures": [{"name": "kinds", "kind": "refusal_kinds"}]})
    assert "judge `writer` (kind reasoned, form published) does not tell kinds of refusal" in reported


def test_a_bad_keyword_list_is_reported_before_anything_runs(project):
    project.write("words.yaml", {"refusal_openngs": ["i cannot"]})
    (line,) = project.mistakes(WHOLE_STUDY | {"judges": ["words"], "primary_judge": "words"})
    assert "judges.words.lists[0]: keyword list" in line and "unknown key `refusal_openngs`; did you mean" in line


def test_a_second_judge_of_a_cascade_that_is_off_has_to_be_allowed(project):
    off = {"enabled": False, "reason": "not for commercial use."}
    project.write(BASE, changed(CATALOGUE, ("engines", "off"), CATALOGUE["engines"]["wheel-engine"] | off))
    second = {"like": "writer", "engine": "off"}
    in_turn = {"kind": "cascade", "first": "reader", "then": "second", "unsure": [0.2, 0.8]}
    project.write("own.yaml", {"judges": {"second": second, "turns": in_turn}})
    study = STUDY | {"catalogue": ["own.yaml"], "judges": ["reader", "turns"]}
    (reported,) = project.mistakes(study)
    assert "own.yaml:" in reported and "judges.turns.then: `second` is off by default" in reported
    assert project.mistakes(study | {"allow": ["second"]}) == []


def test_a_second_judge_of_a_cascade_has_no_floor_and_needs_no_gold_for_one(project):
    project.write(BASE, changed(CATALOGUE, ("judges", "writer", "floor"), {"kappa": 0.5}))
    study = STUDY | {"judges": ["reader", "in-turn"], "primary_judge": "reader"}
    assert project.mistakes(study) == []
    (reported,) = project.mistakes(study | {"judges": ["reader", "writer"]})
    assert "judges.writer.floor: a floor needs gold" in reported


WRITTEN = {"written_to_label": True, "raters": None, "human_kappa": None}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"raters": None}, "`raters`: how many people labelled each row, or `written_to_label: true`"),
        ({"written_to_label": True, "human_kappa": None}, "no rater labelled the rows; leave `raters` out"),
        (WRITTEN | {"human_kappa": {"source": "us"}}, "no rater labelled the rows; leave `human_kappa` out"),
        (WRITTEN | {"labelled_by_model": "GPT-4"}, "both say whose labels they are; leave one out"),
        (
            {"labelled_by_model": "GPT-4", "human_kappa": None},
            "`labelled_by_model` says that no rater labelled the rows",
        ),
        ({"partial_is": "partial"}, "`partial_is: partial` needs a label that `labels` maps to partial"),
        ({"partial_is": "helps"}, "gold.people.partial_is: "),
        ({"class": "fullfilment"}, "did you mean `fulfilment`?"),
        ({"clas": "refusal"}, "unknown key `clas`; did you mean `class`?"),
        (WRITTEN | {"seen_by": ["wrods"]}, "there is no judge `wrods` in the catalogue; did you mean `words`?"),
    ],
)
def test_gold_has_raters_or_was_written_to_its_labels(project, changes, words):
    people = {key: value for key, value in (CATALOGUE["gold"]["people"] | changes).items() if value is not None}
    project.write(BASE, changed(CATALOGUE, ("gold", "people"), people))
    assert any(words in reported for reported in project.mistakes(STUDY))


def test_a_floor_is_not_met_on_gold_that_nobody_labelled(project):
    people = {key: value for key, value in (CATALOGUE["gold"]["people"] | WRITTEN).items() if value is not None}
    catalogue = changed(CATALOGUE, ("gold", "people"), people)
    project.write(BASE, changed(catalogue, ("judges", "words", "floor"), {"kappa": 0.5}))
    study = STUDY | {"judges": ["words"], "primary_judge": "words", "gold": ["people"]}
    (reported,) = project.mistakes(study)
    assert "judges.words.floor: a floor needs gold that people labelled" in reported


@pytest.mark.parametrize(
    ("entry", "path", "column"),
    [
        ({"columns": {"prompt": "qestion"}}, "splits.mine.columns.prompt", "qestion"),
        ({"columns": {"prompt": "question", "category": "topik"}}, "splits.mine.columns.category", "topik"),
        ({"columns": {"prompt": "question"}, "where": {"topik": "a"}}, "splits.mine.where.topik", "topik"),
    ],
)
@pytest.mark.parametrize("file", ["mine.csv", "mine.jsonl"])
def test_a_wrong_column_of_a_local_file_is_known_before_anything_runs(project, file, entry, path, column):
    rows = {
        "mine.csv": "question,topic\nWhy?,a\n",
        "mine.jsonl": '{"question": "Why?"}\n{"question": "?", "topic": "a"}\n',
    }
    project.write(file, rows[file])
    split = {"expectation": "comply", "source": {"kind": "file", "path": file}, **entry}
    project.write("own.yaml", yaml.safe_dump({"datasets": {"own": {"splits": {"mine": split}}}}))
    found = project.mistakes(STUDY | {"splits": ["mine"], "catalogue": [BASE, "own.yaml"]})
    assert any(f"{path}: {file} has no column `{column}`; did you mean" in reported for reported in found), found
    assert len(found) == 1


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_wrong_column_of_a_large_table_is_known_before_anything_runs(project, ending):
    file = project.folder / f"mine.{ending}"
    frame = pd.DataFrame({"question": ["Why? " + "x" * 500] * 10_000})
    frame["topic"] = [str(number) * 50 for number in range(len(frame))]
    frame.to_csv(file, index=False) if ending == "csv" else frame.to_parquet(
        file, compression=None, use_dictionary=False
    )
    assert file.stat().st_size > 4_000_000
    split = {"expectation": "comply", "columns": {"prompt": "qestion"}, "source": {"kind": "file", "path": file.name}}
    project.write("own.yaml", yaml.safe_dump({"datasets": {"own": {"splits": {"mine": split}}}}))
    (found,) = project.mistakes(STUDY | {"splits": ["mine"], "catalogue": [BASE, "own.yaml"]})
    assert f"splits.mine.columns.prompt: mine.{ending} has no column `qestion`; did you mean `question`" in found


@pytest.mark.parametrize(("key", "value"), [("path", 1), ("path", None), ("skip_lines", "two")])
def test_a_source_of_the_wrong_type_is_one_mistake(project, key, value):
    project.write("mine.csv", "question\nWhy?\n")
    source = {"kind": "file", "path": "mine.csv", key: value}
    split = {"expectation": "comply", "source": source, "columns": {"prompt": "question"}}
    project.write("own.yaml", yaml.safe_dump({"datasets": {"own": {"splits": {"mine": split}}}}))
    (reported,) = project.mistakes(STUDY | {"splits": ["mine"], "catalogue": [BASE, "own.yaml"]})
    assert f"splits.mine.source.{key}" in reported


def test_gold_with_a_column_for_each_model_needs_no_others(project):
    project.write("gold.csv", "prompt,theirs,said\nWhy?,No.,yes\n")
    gold = {"source": {"kind": "file", "path": "gold.csv"}, "labels": {"yes": "refusal"}, "raters": 1}
    gold["answers"] = {"m": {"answer": "theirs", "label": "said"}}
    project.write("own.yaml", yaml.safe_dump({"gold": {"mine": gold}}))
    assert project.mistakes(STUDY | {"gold": ["mine"], "catalogue": [BASE, "own.yaml"]}) == []
    project.write("gold.csv", "prompt,theirs,sayd\nWhy?,No.,yes\n")
    (reported,) = project.mistakes(STUDY | {"gold": ["mine"], "catalogue": [BASE, "own.yaml"]})
    assert "gold.mine.answers.m.label: gold.csv has no column `said`; did you mean `sayd`?" in reported


def test_wrong_columns_of_local_gold_are_known_before_anything_runs(project):
    project.write("gold.csv", "prompt,answer,lable\nWhy?,No.,yes\n")
    gold = {"source": {"kind": "file", "path": "gold.csv"}, "labels": {"yes": "refusal"}, "raters": 1}
    project.write("own.yaml", yaml.safe_dump({"gold": {"mine": gold}}))
    (reported,) = project.mistakes(STUDY | {"gold": ["mine"], "catalogue": [BASE, "own.yaml"]})
    assert "gold.mine.columns.label: gold.csv has no column `label`; did you mean `lable`?" in reported


@pytest.mark.parametrize(
    ("part", "path", "column"),
    [
        ({"flags": {"harm": {"column": "harmfull", "raised": "y", "not_raised": "n"}}}, "flags.harm.column", "harmful"),
        ({"slices": {"column": "kinds", "names": {"a": "one"}}}, "slices.column", "kind"),
    ],
)
def test_wrong_columns_of_flags_and_slices_are_known_before_anything_runs(project, part, path, column):
    project.write("gold.csv", "prompt,answer,label,harmful,kind\nWhy?,No.,yes,y,a\n")
    gold = {"source": {"kind": "file", "path": "gold.csv"}, "labels": {"yes": "refusal"}, "raters": 1, **part}
    project.write("own.yaml", yaml.safe_dump({"gold": {"mine": gold}}))
    (reported,) = project.mistakes(STUDY | {"gold": ["mine"], "catalogue": [BASE, "own.yaml"]})
    assert f"gold.mine.{path}: gold.csv has no column" in reported and f"did you mean `{column}`?" in reported


# ---------------------------------------------------------------- thousands of mistakes

MANY = {
    "unknown keys": lambda count: {f"key_{number}": number for number in range(count)},
    "models that are numbers": lambda count: {"models": list(range(count))},
    "figures with `kind` misspelt": lambda count: {"figures": [{"kidn": "rates", "x": 1} for _ in range(count)]},
}


def calls(work):
    """Return how many calls a piece of work makes: as good as its time, and the same on any machine."""
    count = 0

    def note(frame, event, argument):
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("name", MANY)
def test_ten_times_the_mistakes_take_ten_times_the_work(project, name):
    few, many = (lambda count=count: project.mistakes(STUDY | MANY[name](count)) for count in (50, 500))
    few()  # imports what is needed, and fills caches
    assert calls(many) < 12 * calls(few)
