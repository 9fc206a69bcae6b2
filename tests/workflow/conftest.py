"""A finished small study, made once; each test changes a copy."""

from __future__ import annotations

from pathlib import Path

import pytest
from project import Project, copy_of, make_project


@pytest.fixture(scope="session")
def finished_once(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a finished study; do not change it."""
    project = make_project(tmp_path_factory.mktemp("study") / "project")
    project.complete()
    return project


@pytest.fixture
def finished(finished_once: Project, tmp_path: Path) -> Project:
    """Return a copy of a finished study."""
    return copy_of(finished_once, tmp_path / "project")
