"""Finished studies, each made once: a small one, of which each test changes a copy, and one with every number."""

import fcntl
from collections.abc import Callable
from pathlib import Path

import pytest
from project import Project, copy_of, make_project


@pytest.fixture(scope="session")
def made_once(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Callable[[str, Callable[[Path], object]], Path]:
    """Return a function that makes a folder once for all of pytest's workers."""
    root = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        root = root.parent  # of the session: each worker has a folder of its own below

    def made_once(name: str, make: Callable[[Path], object]) -> Path:
        folder, mark = root / name / "project", root / f"{name}.done"
        with open(root / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not mark.exists():
                folder.mkdir(parents=True, exist_ok=True)
                make(folder)
                mark.touch()
        return folder

    return made_once


@pytest.fixture(scope="session")
def finished_once(made_once: Callable[[str, Callable[[Path], object]], Path]) -> Project:
    """Return a finished small study; do not change it."""
    return Project(made_once("finished", lambda folder: make_project(folder).complete()))


@pytest.fixture
def finished(finished_once: Project, tmp_path: Path) -> Project:
    """Return a copy of a finished study."""
    return copy_of(finished_once, tmp_path / "project")


@pytest.fixture(scope="session")
def frozen(made_once: Callable[[str, Callable[[Path], object]], Path]) -> Path:
    """Return the results of the study with every number and with flagged cells; do not change them."""
    from frozen_study import STUDY, made_frozen

    return made_once("frozen", made_frozen) / "results" / STUDY
