"""Plug-ins of a study: files whose kinds are known before it is validated."""

import pytest
from config_project import STUDY

from refusal_eval.report.results.dictionary import definitions

PLUGIN = """
from typing import Literal

from refusal_eval.config.kinds import JUDGES
from refusal_eval.config.shapes import Whole
from refusal_eval.judges.judge_base import AnswerJudge


@JUDGES.add
class {name}(AnswerJudge):
    kind: Literal["{kind}"]
    most: Whole
"""
TABLE = """
from refusal_eval.config.kinds import TABLES
from refusal_eval.report.paper.table_kind import StudyTable


@TABLES.add
class LengthsTable(StudyTable):
    name = "lengths"
"""
OWN = {"judges": {"mine": {"kind": "shortest", "most": 3}}}


@pytest.fixture
def project(project):
    project.write("own/kinds.py", PLUGIN.format(name="Shortest", kind="shortest"))
    project.write("own/catalogue.yaml", OWN)
    return project


def study(**changes):
    files = {"plugins": ["own/kinds.py"], "catalogue": ["own/catalogue.yaml"]}
    return STUDY | files | {"judges": ["words", "mine"]} | changes


def test_kinds_that_a_plugin_adds_are_known_to_its_study(project):
    loaded = project.load(study())
    usual = {"label": None, "floor": None, "asked_prompt": False}
    assert loaded["judge_entries"]["mine"] == {"kind": "shortest", "most": 3} | usual
    assert loaded["plugins"] == ["own/kinds.py"]
    (another,) = project.mistakes(STUDY | {"catalogue": ["own/catalogue.yaml"]})
    assert "unknown kind 'shortest'" in another, "a study's kinds are not known to the next one in a process"


def test_mistakes_in_entries_of_such_a_kind_are_reported_as_of_any_other(project):
    project.write("own/catalogue.yaml", {"judges": {"mine": {"kind": "shortest", "moist": 3}}})
    (line,) = project.mistakes(study())
    assert "own/catalogue.yaml:4: judges.mine.moist: unknown key `moist`; did you mean `most`?" in line


@pytest.mark.parametrize(
    ("code", "line", "message"),
    [
        ("import sys\nimport no_such_module\n", 2, "ModuleNotFoundError: No module named 'no_such_module'"),
        ("def f(:\n", 1, "SyntaxError"),
        ("\n\nraise SystemExit(3)\n", 3, "SystemExit: 3"),
        (PLUGIN.format(name="Mine", kind="keyword"), 9, "ValueError: there is a judge of kind `keyword` already"),
    ],
)
def test_a_plugin_that_cannot_be_imported_is_a_mistake_with_its_line(project, code, line, message):
    project.write("broken.py", code)
    (found,) = project.mistakes(STUDY | {"plugins": ["broken.py"]})
    assert found.split(": ")[1] == "plugins[0]" and f"broken.py, line {line}: cannot be imported" in found
    assert message in found


def test_a_plugin_that_is_missing_is_a_mistake(project):
    (found,) = project.mistakes(STUDY | {"plugins": ["own/kind.py"]})
    assert "there is no file own/kind.py; did you mean `kinds.py`?" in found


def test_a_plugin_that_changed_is_imported_again(project):
    project.load(study())
    project.write("own/kinds.py", PLUGIN.format(name="Shortest", kind="shortest").replace("most: Whole", "most: str"))
    project.write("own/catalogue.yaml", {"judges": {"mine": {"kind": "shortest", "most": "three"}}})
    assert project.load(study())["judge_entries"]["mine"]["most"] == "three"


def test_a_feature_of_ones_own_without_an_analysis_brings_the_words_of_its_numbers(project):
    own = {"unit": "share, 0 to 1", "meaning": "How many are long.", "formula": "Long by all.", "source": "us"}
    project.write("own/dictionary.yaml", {"Lengths": {"page": "statistics.md", "names": {"long_answers": own}}})
    project.write("own/table.py", TABLE)
    project.load(STUDY | {"plugins": ["own/table.py"]})
    assert definitions()["long_answers"].meaning == "How many are long."
    project.load(STUDY)
    assert "long_answers" not in definitions()
