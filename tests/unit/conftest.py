"""What many unit tests share: a small project, with its folder as working folder."""

from pathlib import Path

import pytest
from config_project import Project


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path)
