"""A finished small study, made once; each test changes a copy."""

import fcntl
from pathlib import Path

import pytest
from project import Project, copy_of, make_project


@pytest.fixture(scope="session")
def finished_once(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Project:
    """Return a finished study, which all of pytest's workers share; do not change it."""
    folder = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        folder = folder.parent  # of the session: each worker has a folder of its own below
    project = Project(folder / "finished" / "project")
    with open(folder / "finished.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        mark = folder / "finished.done"
        if not mark.exists():
            make_project(project.folder).complete()
            mark.touch()
    return project


@pytest.fixture
def finished(finished_once: Project, tmp_path: Path) -> Project:
    """Return a copy of a finished study."""
    return copy_of(finished_once, tmp_path / "project")
