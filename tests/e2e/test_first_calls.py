"""Every process of the engine environment computes the same cosines."""

import os
import subprocess
from collections import Counter

import pytest
from project import ROOT

from refusal_eval.study.engine_environment import ENGINE_FOLDER

PROCESSES = 300  # without the first calls about one of sixty computes others
PROGRAM = ROOT / "scripts" / "refusal_eval" / "engines" / "first_calls.py"
# The table of a rotary embedding, as a model makes it at its start.
COSINES = """
import hashlib, runpy, sys, torch
runpy.run_path(sys.argv[1])
angles = torch.outer(torch.arange(8192.0), 1 / 100000 ** (torch.arange(0, 64, 2.0) / 64))
print(hashlib.sha256(angles.cos().numpy().tobytes() + angles.sin().numpy().tobytes()).hexdigest())
"""


@pytest.mark.soak
def test_two_threads_compute_the_same_cosines_in_every_process() -> None:
    command = [str(ROOT / ENGINE_FOLDER / "bin" / "python"), "-c", COSINES, str(PROGRAM)]
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    digests = Counter(
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(PROCESSES)
    )
    assert len(digests) == 1, digests
