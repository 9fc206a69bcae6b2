"""What is generated from the classes: the schemas that editors use, and the reference in config/README.md."""

import functools
import json
import re
import shutil

import generate_config_docs
import pytest
import yaml
from config_project import CATALOGUE, STUDY, WHOLE_STUDY, Project, changed
from config_reference import TITLES, catalogue_schema, study_schema
from jsonschema import Draft202012Validator

from refusal_eval.config.shapes import fields_of

GENERATED = ("config.schema.json", "catalogue.schema.json", "README.md")


@pytest.fixture
def copy_of_config(repository, tmp_path):
    (tmp_path / "config").mkdir()
    for name in GENERATED:
        shutil.copy(repository / "config" / name, tmp_path / "config" / name)
    return tmp_path


def test_schemas_and_reference_are_up_to_date(capsys):
    assert generate_config_docs.main(["--check"]) == 0, capsys.readouterr().out + "\nrun `make schema`"


@pytest.mark.parametrize("name", GENERATED)
def test_a_drift_is_shown_and_mended(copy_of_config, capsys, name):
    file = copy_of_config / "config" / name
    right = file.read_text(encoding="utf-8")
    wrong = right.replace("Judge of the headline numbers.", "A judge.").replace("Gold of the study;", "Gold;")
    file.write_text(wrong, encoding="utf-8")
    root = ["--root", str(copy_of_config)]
    assert generate_config_docs.main(["--check", *root]) == 1
    assert f"--- {file} (as it is)" in capsys.readouterr().out
    assert file.read_text(encoding="utf-8") == wrong, "--check writes nothing"
    assert generate_config_docs.main(root) == 0
    assert file.read_text(encoding="utf-8") == right
    assert generate_config_docs.main(["--check", *root]) == 0


def test_a_readme_without_its_markers_is_an_error(copy_of_config):
    (copy_of_config / "config" / "README.md").write_text("# Configuration\n")
    with pytest.raises(ValueError, match="markers of the reference are missing"):
        generate_config_docs.main(["--root", str(copy_of_config)])


def test_the_reference_has_every_key(repository):
    readme = (repository / "config" / "README.md").read_text(encoding="utf-8")
    for entry, title in TITLES.items():
        table = readme.split(f"#### {title}\n", 1)[1].split("####", 1)[0]
        assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == list(fields_of(entry))


# ---------------------------------------------------------------- schemas


def problems(schema, value):
    """Return what a schema, which has to be one, finds wrong; days as editors see them, as text."""
    return list(validator(json.dumps(schema)).iter_errors(json.loads(json.dumps(value, default=str))))


@functools.cache
def validator(schema):
    Draft202012Validator.check_schema(json.loads(schema))
    return Draft202012Validator(json.loads(schema))


@pytest.mark.feature(  # of studies that ship
    *("targets", "over_refusals", "ways_of_asking", "tradeoff", "battles", "steering", "separation", "choices"),
    *(
        "refusal_tokens",
        "transforms",
        "attributions",
        "attention",
        "eager",
        "written",
        "generated",
        "diversity",
        "comparisons",
    ),
)
def test_shipped_files_fit_their_schemas_and_name_them(repository):
    config = repository / "config"
    files = {config / "config.yaml": study_schema()} | dict.fromkeys(
        [*config.glob("catalogue/**/*.yaml"), *config.glob("studies/*_entries.yaml")], catalogue_schema()
    )
    files |= dict.fromkeys(set(config.glob("studies/*.yaml")) - set(files), study_schema())
    assert len(files) > 12
    for file, schema in files.items():
        text = file.read_text(encoding="utf-8")
        assert problems(schema, yaml.load(text, Loader=yaml.CSafeLoader)) == [], file
        named = re.match(r"# yaml-language-server: \$schema=(\S+)\n", text)
        assert named, f"{file} names its schema, so that editors check it"
        assert json.loads((file.parent / named[1]).read_text(encoding="utf-8")) == schema


INHERITING = {"like": "plain", "sampling": {"top_p": 0.9}}


def test_schemas_accept_what_the_check_accepts(project):
    assert project.mistakes(WHOLE_STUDY) == []
    assert problems(study_schema(), WHOLE_STUDY) == []
    inheriting = {"models": {"m": INHERITING}}, {"gold": {"g": {"like": "people", "source": {"path": "x.csv"}}}}
    for value in (CATALOGUE, {"models": None}, *inheriting):
        assert problems(catalogue_schema(), value) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("models", "plain", "sampling", "temprature"), 1),
        (("models", "plain", "sampling"), {}),
        (("models", "plain"), {"sampling": {"max_tokens": 9}}),
        (("models", "m"), INHERITING | {"sampling": {"topp": 0.9}}),
        (("engines", "hub-engine", "weights", "revision"), "main"),
        (("engines", "hub-engine", "dtype"), "bf16"),
        (("judges", "reader", "labels"), {"refusal": "A"}),
        (("judges", "words", "rubric"), "x"),
        (("datasets", "family", "defaults", "colums"), {}),
        (("datasets", "family", "splits", "hub-rows", "expectation"), "refuses"),
        (("gold", "people", "labels"), {}),
        (("modles",), {}),
    ],
)
def test_the_schema_of_catalogues_finds_mistakes(path, value):
    assert problems(catalogue_schema(), changed(CATALOGUE, path, value)) != []


def test_the_schema_of_studies_finds_mistakes():
    without = {key: value for key, value in STUDY.items() if key != "judges"}
    for study in (STUDY | {"sampels": 3}, STUDY | {"samples": "three"}, without):
        assert problems(study_schema(), study) != []


# ---------------------------------------------------------------- examples of the README


def test_examples_of_the_readme_work(repository, tmp_path, monkeypatch):
    """The smallest study and every example of an entry are valid as they stand."""
    readme = (repository / "config" / "README.md").read_text(encoding="utf-8")
    blocks = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", readme, re.DOTALL)]
    (smallest,) = [block for block in blocks if "study" in block]
    entries = [block for block in blocks if "study" not in block and "catalogue" not in block]
    assert len(entries) >= 4
    shutil.copytree(repository / "config", tmp_path / "config", ignore=shutil.ignore_patterns("README.md"))
    monkeypatch.chdir(tmp_path)
    project = Project.__new__(Project)
    project.folder = tmp_path
    project.write("my_phrases.yaml", "refusal_openings: []")
    for name in ("prompts.csv", "pairs.csv", "labelled.csv"):
        project.write(name, "")
    judges = (repository / "docs" / "reference" / "judges.md").read_text(encoding="utf-8")
    project.write("my_rubric.md", *re.findall(r"```jinja\n(.*?)```", judges, re.DOTALL))
    project.write("my_judge.py", *re.findall(r"```python\n(.*?)```", readme, re.DOTALL))
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        project.write(f"runs/checkpoint-400/{name}", "x")
    assert project.mistakes(smallest) == []
    for number, block in enumerate(entries):
        project.write(f"own{number}.yaml", block)
    own = {
        section: list(dict.fromkeys(name for block in entries for name in block.get(section, ())))
        for section in ("models", "judges", "gold")
    }
    splits = [name for block in entries for dataset in block.get("datasets", {}).values() for name in dataset["splits"]]
    study = smallest | own | {"splits": splits, "catalogue": [f"own{number}.yaml" for number in range(len(entries))]}
    assert all(own.values()) and splits
    (reported,) = project.mistakes(study)
    assert "`my-guard` is off by default" in reported
    assert project.mistakes(study | {"allow": ["my-guard"]}) == []
