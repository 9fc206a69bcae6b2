"""What all tests share: the repository, the catalogue that ships with it, and that none sees what another left."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from refusal_eval.config.catalogue import Catalogue, shipped_files
from refusal_eval.config.explain import ask_for_kinds_again
from refusal_eval.config.problems import Problem
from refusal_eval.core.registry import Registry
from refusal_eval.features import FEATURES
from refusal_eval.workflow.rule_files import content_hash

REPOSITORY = Path(__file__).resolve().parent.parent
STARTED_IN = os.getcwd()


class ByFileAndCluster(LoadFileScheduling):  # type: ignore[misc]
    """Give a worker whole files, and one of them all files that need the Slurm cluster, which it starts."""

    def _split_scope(self, nodeid: str) -> str:
        return "tests/slurm" if nodeid.startswith("tests/slurm/") else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFileAndCluster | None:
    return ByFileAndCluster(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip the tests that need a feature which is not here (see without_feature.py)."""
    needed = {name for mark in item.iter_markers("feature") for name in mark.args}
    if gone := sorted(needed.difference(FEATURES)):
        pytest.skip(f"needs {', '.join(gone)}")


@pytest.fixture(autouse=True)
def _nothing_kept_of_another_run() -> Iterator[None]:
    """Forget the kinds that a test's plug-ins added and the hashes of its files: a process of a user's has one study.

    Else the schemas of the next test had the plug-in's kind, and its `labels.jsonl` the hash of another.
    """
    yield
    if Registry.forget_added():
        ask_for_kinds_again()
    content_hash.cache_clear()


@pytest.fixture(autouse=True)
def _working_folder_kept() -> Iterator[None]:
    """Fail the test that leaves another working folder, not those after it: tests name files of the repository."""
    yield
    if (left := os.getcwd()) != STARTED_IN:
        os.chdir(STARTED_IN)
        pytest.fail(f"the working folder is another one now: {left}")


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
