"""What all tests share: where the repository is, and the catalogue that ships with it."""

from pathlib import Path

import pytest

from refusal_eval.config.catalogue import Catalogue, shipped_files
from refusal_eval.config.problems import Problem

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def repository() -> Path:
    return REPOSITORY


@pytest.fixture(scope="session")
def shipped(repository: Path) -> Catalogue:
    """The catalogue that ships, without a mistake."""
    files, problems = shipped_files(str(repository)), list[Problem]()
    catalogue = Catalogue(files, len(files), problems)
    assert problems == []
    return catalogue
