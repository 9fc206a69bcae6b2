"""What all tests share: the library on the path, and where the repository is."""

import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "scripts"))


@pytest.fixture(scope="session")
def repository() -> Path:
    return REPOSITORY
