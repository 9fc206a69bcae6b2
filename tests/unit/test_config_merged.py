"""What Snakemake's config may hold: one study file, and what the command line lays over it."""

from pathlib import Path
from typing import Any

import pytest

from refusal_eval.config.load_study import refuse_merged
from refusal_eval.config.problems import ConfigError


@pytest.fixture
def study(tmp_path: Path) -> str:
    file = tmp_path / "study.yaml"
    file.write_text("study: mine\nsamples: 3\ncomparisons: {baseline: plain}\n")
    return str(file)


WHOLE: dict[str, Any] = {"study": "mine", "samples": 3, "comparisons": {"baseline": "plain"}}


@pytest.mark.parametrize(
    ("config", "command_line"),
    [
        pytest.param(WHOLE, {}, id="the file alone"),
        pytest.param(WHOLE | {"samples": 5}, {"samples": 5}, id="another value"),
        pytest.param(WHOLE | {"gold": ["a"]}, {"gold": ["a"]}, id="another key"),
        pytest.param(WHOLE | {"comparisons": None}, {"comparisons": None}, id="a mapping taken away"),
        pytest.param(
            WHOLE | {"comparisons": {"baseline": "plain", "family": "all"}},
            {"comparisons": {"family": "all"}},
            id="a key inside of a mapping",
        ),
    ],
)
def test_a_study_file_and_its_command_line_are_taken(
    study: str, config: dict[str, Any], command_line: dict[str, Any]
) -> None:
    refuse_merged(config, study, command_line)


def test_a_key_inside_of_a_mapping_that_another_file_brings_is_named(study: str) -> None:
    config = WHOLE | {"comparisons": {"baseline": "plain", "family": "all"}}
    with pytest.raises(ConfigError, match=r"holds `comparisons\.family`, from another file"):
        refuse_merged(config, study, {"samples": 3})


def test_a_file_that_cannot_be_read_is_left_to_the_loading_of_the_study(tmp_path: Path) -> None:
    refuse_merged({"study": "mine"}, str(tmp_path / "missing.yaml"), {})
