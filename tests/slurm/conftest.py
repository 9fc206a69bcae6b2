"""A Slurm cluster for the tests of this folder."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_workers import stay_on_own_cores
from project import copy_of
from slurm.cluster import Cluster, ClusterError, install, why_not
from slurm.disturbed import SLOW, with_engine_of_its_own
from slurm.stand_in_engine import settle
from slurm.study import Study, make_study


@pytest.fixture(scope="session", autouse=True)
def own_cores() -> None:
    stay_on_own_cores()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Return a running cluster of one node with eight GPUs that do not exist."""
    if why_not() is not None:
        try:
            install()
        except ClusterError as error:
            pytest.skip(f"no Slurm here: {error}")
    # Short, because munge's socket lies in it.
    folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
    found = Cluster(folder)
    found.start()
    yield found
    found.stop()
    assert found.running() == {}, "what was started is stopped"
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def usable(cluster: Cluster) -> Iterator[Cluster]:
    """Return the cluster, and leave it without jobs and with its node in service."""
    yield cluster
    cluster.end_jobs()


@pytest.fixture(scope="session")
def prepared(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Return a study whose requests are made."""
    return make_study(tmp_path_factory.mktemp("slurm-faults") / "project", cluster, request=SLOW)


@pytest.fixture(scope="session")
def undisturbed(prepared: Study, tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Return the study after a run on this machine, without Slurm."""
    project = copy_of(prepared.project, tmp_path_factory.mktemp("undisturbed") / "project")
    study = with_engine_of_its_own(project, prepared.cluster)
    settle(study.engine, start=0, request=0)
    # The stand-in does not look at its GPUs; the lease wants some.
    os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"
    try:
        project.snakemake("--resources", "gpu=2", "--until", "answers")
    finally:
        del os.environ["CUDA_VISIBLE_DEVICES"]
    return study


@pytest.fixture
def study(prepared: Study, usable: Cluster, tmp_path: Path) -> Iterator[Study]:
    """Return a copy of the prepared study with an engine of its own; what still runs at the end is ended."""
    found = with_engine_of_its_own(copy_of(prepared.project, tmp_path / "project"), usable)
    yield found
    settle(found.engine)
