"""A Slurm cluster for the tests of this folder, and the table of what was seen."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm.cluster import Cluster, ClusterError, install, why_not
from slurm.study import Seen


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
def seen(request: pytest.FixtureRequest) -> Iterator[list[Seen]]:
    """Collect what was seen; print it as a table at the end."""
    rows: list[Seen] = []
    yield rows
    capture = request.config.pluginmanager.getplugin("capturemanager")
    head = f"{'on Slurm':58} | {'stored before':>13} | {'rerun did':>9} | said"
    with capture.global_and_fixture_disabled():
        print("", head, "-" * len(head), *rows, sep="\n")
