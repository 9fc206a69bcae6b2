"""The recipes of docs/how-to/extending.md: each names few files, all of which are there, and every kind has one."""

import re
from pathlib import Path

import pytest

from refusal_eval.core.registry import Registry

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "extending.md").read_text(encoding="utf-8")
RECIPES = dict(part.split("\n", 1) for part in re.split(r"^## ", PAGE, flags=re.MULTILINE)[2:])
MOST_FILES = 3
# Sources are explained with engines and models, analyses and protocols with features.
WITHOUT = {"source of weights", "source of adapters", "analysis", "protocol"}
# What a feature that ships may bring; the recipe of a feature speaks of them.
WITHOUT |= {"keys of a study", "keys of a model", "keys of a validated study", "section of the catalogue"}
WITHOUT |= {
    "keys of a split",
    "reader of rows",
    "check of a study",
    "check of a model",
    "check of a load",
    "use of activations",
    "part of a plan",
    "load of a program",
    "part of a status",
}


def test_there_is_a_recipe_for_everything_that_is_often_added():
    wanted = {
        "A split",
        "An estimand",
        "A column of a table",
        "A field of a model",
        "An interval method",
        "A table",
        "A feature",
    }
    assert wanted <= set(RECIPES)
    nouns = {registry.noun for registry in Registry.every} - WITHOUT
    assert {f"A kind of {noun}" for noun in nouns if f"An {noun}" not in RECIPES} - {
        f"A kind of {noun}" for noun in nouns if f"A {noun}" in RECIPES
    } <= set(RECIPES)


@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_touches_three_files_at_most(title):
    (files,) = re.findall(r"^Files: (.+?)$", RECIPES[title].replace("\n@", " @"), re.MULTILINE)
    steps = re.findall(r"^\d\. ", RECIPES[title], re.MULTILINE)
    named = len(steps) if "those of steps" in files else len(re.split(r", and | and |, ", files.split(";")[0]))
    assert 1 <= named <= MOST_FILES, files


@pytest.mark.feature(
    *("attributions", "controlled", "exports", "hosted", "judged", "lora", "occluded", "recorded_logs", "steering"),
    *("transforms", "written", "attention", "eager"),
)
def test_what_the_recipes_name_is_there():
    named = sorted(set(re.findall(r"\bscripts/[\w/]+\.py", PAGE)))
    assert named and [path for path in named if not (ROOT / path).exists()] == []
