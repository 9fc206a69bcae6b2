"""Two engines at once, each on cores of its own: how `make test-full` runs the tests that start engines."""

import os


def stay_on_own_cores() -> None:
    """Give a worker of pytest-xdist, and all that it starts, its share of the cores.

    An engine has a thread for each core that it sees, and threads of two engines on the same cores wait for each other.
    """
    worker, workers = os.environ.get("PYTEST_XDIST_WORKER"), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1))
    cores = sorted(os.sched_getaffinity(0))
    if worker and 1 < workers <= len(cores):
        os.sched_setaffinity(0, cores[int(worker.removeprefix("gw")) :: workers])
