"""Mutated inputs meet a sentence or are taken: no other exception, no hang, no flood of memory, nothing forbidden."""

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from fuzz.targets import GROUPS, all_targets

TESTS = Path(__file__).parents[1]


def fuzz(names: Sequence[str], cases: int) -> None:
    """Fuzz targets in a process of their own, whose death says what a parser that crashes or hangs would do."""
    environment = os.environ | {"PYTHONPATH": f"{TESTS.parent / 'scripts'}{os.pathsep}{TESTS}"}
    command = [sys.executable, "-m", "fuzz.run", *names, "--cases", str(cases)]
    run = subprocess.run(command, cwd=TESTS, env=environment, capture_output=True, text=True, errors="replace")
    print(run.stdout)
    assert run.returncode == 0, f"{shlex.join(command)}\n{run.stdout}\n...{run.stderr[-3000:]}"


@pytest.mark.parametrize("group", GROUPS)
def test_200_mutated_inputs_of_each_parser(group: str) -> None:
    fuzz(sorted(one.name for one in all_targets().values() if one.parse.__module__ == f"fuzz.of_{group}"), 200)


@pytest.mark.soak
@pytest.mark.parametrize("name", sorted(all_targets()))
def test_10_000_mutated_inputs(name: str) -> None:
    fuzz([name], 10_000)
