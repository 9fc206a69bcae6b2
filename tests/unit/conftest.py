"""What many unit tests share: a small project, with its folder as working folder, and the config of a whole study."""

from pathlib import Path
from typing import Any

import pytest
from config_project import WHOLE_STUDY, Project


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path)


@pytest.fixture
def config(project: Project) -> dict[str, Any]:
    return project.load(WHOLE_STUDY)
