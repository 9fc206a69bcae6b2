"""What a split with dialogues reruns, and that splits without them keep the params that they always had."""

import copy
from pathlib import Path

import pytest
from config_project import STUDY

from refusal_eval.study.study import Study
from refusal_eval.workflow import scoring
from refusal_eval.workflow.data_stage import split_reading


@pytest.fixture
def config(project):
    return project.load(STUDY | {"splits": ["hub-rows", "talk-rows"]})


def reading(config, split):
    return split_reading(Study(config), split, Path())


def cell(config, split):
    return scoring.cell(Study(config), "words", "plain", split)


def test_a_split_without_dialogues_has_no_turns_to_score(config):
    assert "scored" not in cell(config, "hub-rows")


def test_the_mode_and_the_columns_of_turns_decide_the_prompts(config):
    talk = reading(config, "talk-rows")
    assert talk["mode"] == "cumulative" and talk["columns"]["turns"] == ["question", "answer"]


@pytest.mark.parametrize(("mode", "default"), [("cumulative", "all"), ("independent", "last")])
def test_which_turns_count_decides_the_scores_and_no_prompt(config, mode, default):
    entry = config["split_entries"]["talk-rows"]
    entry["dialogue"]["mode"] = mode
    assert cell(config, "talk-rows")["scored"] == default
    other = copy.deepcopy(config)
    other["split_entries"]["talk-rows"]["dialogue"]["scored"] = "after_first"
    assert cell(other, "talk-rows")["scored"] == "after_first"
    assert reading(other, "talk-rows") == reading(config, "talk-rows")
