"""Splits that are made of dialogues: which kinds take them, and what the others say would work."""

from typing import Any

import pytest
from config_project import CATALOGUE, STUDY

MADE = CATALOGUE["datasets"]["made"]["splits"]


def with_parent(project: Any, split: str, **keys: Any) -> list[str]:
    """Return what is wrong with a study of a split whose prompts are made of dialogues."""
    source = dict(MADE[split]["source"])
    source["seeds" if "seeds" in source else "split"] = "talk-rows"
    for key in ("template",):
        source |= {key: "ask.md"} if key in source else {}
    entry = {"source": source, "expectation": "comply", **keys}
    if source["kind"] == "written":
        entry["where"] = {"state": "written"}
    project.write("own.yaml", {"datasets": {"own": {"splits": {"mine": entry}}}})
    found = project.mistakes(STUDY | {"catalogue": ["own.yaml"], "splits": ["mine"]})
    return [line.split(": ", 1)[1].removeprefix("datasets.own.splits.mine.") for line in found]


@pytest.mark.feature("written", "judged", "controlled")
@pytest.mark.parametrize(
    ("split", "key"), [("written-rows", "split"), ("refused-rows", "split"), ("controlled-rows", "seeds")]
)
def test_what_takes_no_dialogues_says_what_it_takes(project: Any, split: str, key: str) -> None:
    (reported,) = with_parent(project, split)
    assert reported.startswith(f"source.{key}: the prompts of `talk-rows` are dialogues")
    assert reported.endswith("name a split whose rows are one question each")


@pytest.mark.feature("occluded")
def test_of_dialogues_with_one_word_left_out_the_mode_is_asked_for(project: Any) -> None:
    (reported,) = with_parent(project, "left-out-rows")
    assert reported.startswith("dialogue: ") and reported.endswith("by `dialogue: {mode: cumulative}`")
    assert with_parent(project, "left-out-rows", dialogue={"mode": "cumulative"}) == []
