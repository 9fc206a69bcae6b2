"""YAML is read within bounds, whoever wrote it, and what is wrong comes in words with its line."""

import itertools
import os
from pathlib import Path

import pytest
import yaml
from config_project import STUDY, Project

from refusal_eval.config.disk_mistakes import _wrong_with
from refusal_eval.config.load_study import study_values
from refusal_eval.config.problems import ConfigError
from refusal_eval.config.shapes import OnDisk
from refusal_eval.core.errors import UserError
from refusal_eval.core.rubric import rubric_mistake
from refusal_eval.core.yaml_files import MOST_DEPTH, read_yaml
from refusal_eval.judges.keyword_judge import KeywordReader
from refusal_eval.tools.store.store_studies import study_files

CONFLICT = "study: b\n<<<<<<< HEAD\nmodels: [a]\n=======\nmodels: [b]\n>>>>>>> other\n"
STEPS = list(itertools.pairwise("abcdefghi"))
LEVELS = "".join(f"{one}: &{one} [{', '.join([f'*{below}'] * 9)}]\n" for below, one in STEPS)
MERGED = "".join(f"{one}: &{one} {{<<: [{', '.join([f'*{below}'] * 9)}]}}\n" for below, one in STEPS)
# What each file is, and what is reported about it.
ADVERSARIES = {
    "a few aliases that stand for 10^9 values": ("a: &a [x]\n" + LEVELS, "aliases repeat more than 100000 values"),
    "merge keys that stand for 10^9 keys": ("a: &a {x: 1}\n" + MERGED, "aliases repeat more than 100000 values"),
    "a list that holds itself": ("a: &a [*a]\n", "the alias *a stands in what it names"),
    "1,500 nested keys": ("".join(f"{' ' * n}k:\n" for n in range(1500)), f"values nest deeper than {MOST_DEPTH}"),
    "100,000 brackets": ("a: " + "[" * 100_000, f"values nest deeper than {MOST_DEPTH}"),
    "an empty number": ("a: !!int ''\n", "this does not fit its type tag:yaml.org,2002:int"),
    "a switch that is none": ("a: !!bool x\n", "this does not fit its type tag:yaml.org,2002:bool"),
    "a day that is none": ("a: !!timestamp x\n", "this does not fit its type tag:yaml.org,2002:timestamp"),
    "a number of 5,000 digits": ("a: " + "9" * 5000 + "\n", "Exceeds the limit"),
    "a number of 3,000 parts to base 60": ("a: 1" + ":1" * 3000 + "\n", "Exceeds the limit"),
    "an octal number of 5,000 digits": ("a: 0" + "7" * 5000 + "\n", "Exceeds the limit"),
    "a hexadecimal number of 5,000 digits": ("a: 0x" + "f" * 5000 + "\n", "Exceeds the limit"),
    "250,000 values": ("a: [" + "1," * 250_000 + "]\n", "the file holds more than 200000 values"),
    "marks of a merge": (
        "a: [x,\n<<<<<<< HEAD\ny,\n=======\nz]\n>>>>>>> other\n",
        "`<<<<<<< HEAD` is a mark of an unf",
    ),
    "a no-break space": ("a: 1\nb:\xa0[x]\n", "could not find expected ':'; line"),
    "a full-width colon": ("a: 1\nb\uff1a2\n", "could not find expected ':'; line"),
    "a Python object": ("a: !!python/object/apply:os.system [true]\n", "could not determine a constructor"),
    "a day that no month has": ("a: 2026-13-45\n", "month must be in 1..12"),
}


@pytest.mark.parametrize("name", ADVERSARIES)
def test_every_adversary_is_an_error_of_yaml_with_its_place(tmp_path: Path, name: str) -> None:
    text, reported = ADVERSARIES[name]
    (tmp_path / "x.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(yaml.MarkedYAMLError) as caught:
        read_yaml(tmp_path / "x.yaml")
    assert reported in str(caught.value.problem) and caught.value.problem_mark is not None


def test_what_people_write_is_read_as_pyyaml_reads_it(repository: Path) -> None:
    files = [*(repository / "config").rglob("*.yaml"), *(repository / "tests" / "unit").rglob("*.yaml")]
    assert len(files) > 10
    for file in files:
        try:
            wanted = yaml.safe_load(file.read_text(encoding="utf-8"))
        except yaml.YAMLError:
            continue
        assert read_yaml(file) == wanted, file


def test_a_letter_of_another_line_is_not_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("label: '\u5b89\u5168\uff1a\u7532'\nmodels: [a\nsplits: [b]\n", encoding="utf-8")
    with pytest.raises(yaml.MarkedYAMLError) as caught:
        read_yaml(path)
    assert "looks like" not in str(caught.value.problem)


def test_a_key_of_a_word_list_stands_once(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("rewrites: &a {a: b}\nwindows: {<<: *a, a: c}\nfirst: [{x: 1}, {x: 2, '1': a, 1: b}]\n")
    assert read_yaml(path, of_user=True)["windows"] == {"a": "c"}
    for text, line in (("hedges: [one]\nhedges: [two]\n", 2), ("windows:\n  first: 1\n  'first': 2\n", 3)):
        path.write_text(text)
        with pytest.raises(yaml.MarkedYAMLError, match=rf"the key `\w+` stands twice\n.*line {line}"):
            read_yaml(path, of_user=True)


def test_aliases_and_merge_keys_of_usual_size_are_read(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("a: &a {x: 1}\nb: {<<: *a, y: 2}\nc: [*a, *a]\n", encoding="utf-8")
    assert read_yaml(tmp_path / "x.yaml") == {"a": {"x": 1}, "b": {"x": 1, "y": 2}, "c": [{"x": 1}, {"x": 1}]}
    (tmp_path / "x.yaml").write_text("", encoding="utf-8")
    assert read_yaml(tmp_path / "x.yaml") is None


def test_a_pipe_and_a_folder_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.yaml")
    for path in (tmp_path / "x.yaml", tmp_path):
        with pytest.raises(OSError, match=r"no regular file|[Ii]s a directory"):
            read_yaml(path)


@pytest.mark.parametrize("name", [*ADVERSARIES, "a pipe"])
def test_a_file_near_the_study_that_nobody_names_stops_nothing(project: Project, name: str) -> None:
    if name == "a pipe":
        os.mkfifo(project.folder / "other.yaml")
    else:
        project.write("other.yaml", "study: small\n" + ADVERSARIES[name][0])
    assert project.mistakes(STUDY) == []
    assert study_files(project.folder) == [str(project.folder / "study.yaml")]


@pytest.mark.parametrize("name", ADVERSARIES)
def test_a_study_its_catalogue_and_its_lock_are_mistakes_with_their_place(project: Project, name: str) -> None:
    text, reported = ADVERSARIES[name]
    project.write("my.yaml", "\n" + text)
    project.write("study.lock.yaml", "\n" + text)
    catalogue, lock = project.mistakes(STUDY | {"catalogue": ["my.yaml"]})
    for file, line in (("my.yaml", catalogue), ("study.lock.yaml", lock)):
        assert line.startswith(f"{file}:") and f"is not valid YAML: {reported}" in line
    assert "`refusal-eval pin` writes a new one" in lock
    project.write("study.yaml", text)
    with pytest.raises(ConfigError, match=r"study\.yaml:") as caught:
        study_values("study.yaml")
    assert reported in str(caught.value)


@pytest.mark.parametrize("name", ADVERSARIES)
def test_a_keyword_list_is_refused_in_words(tmp_path: Path, name: str) -> None:
    (tmp_path / "words.yaml").write_text(ADVERSARIES[name][0], encoding="utf-8")
    with pytest.raises(UserError, match=r"keyword list .*words\.yaml"):
        KeywordReader.from_files([tmp_path / "words.yaml"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("study: x\nmodels:\xa0[m]\n", "line 2 has U+00A0, which looks like a space and is none"),
        ("study: x\nmodels\uff1a [m]\n", "line 2 has U+FF1A, which looks like a colon and is none"),
        ("study\uff1ax\n", "line 1 has U+FF1A, which looks like a colon and is none"),
        (CONFLICT, "study.yaml:2: is not valid YAML: `<<<<<<< HEAD` is a mark of an unfinished merge"),
    ],
)
def test_a_study_with_what_people_do_not_see_or_forgot_is_refused_by_its_name(
    project: Project, text: str, said: str
) -> None:
    project.write("study.yaml", text)
    with pytest.raises(ConfigError) as caught:
        study_values("study.yaml")
    assert said in str(caught.value)


def test_a_pipe_is_no_rubric(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "rubric.md")
    path = str(tmp_path / "rubric.md")
    assert rubric_mistake(path) == f"rubric {path} is no regular file"
    assert "is no regular file but a pipe" in next(_wrong_with(path, OnDisk("rubric")))
