"""The program `refusal-eval` as a user starts it."""

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO

import pytest
from forked_snakemake import run_snakemake
from project import ROOT

from refusal_eval.__main__ import main
from refusal_eval.features import FEATURES

JUDGE = "features.recorded_logs.judge_command"


def refusal_eval(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the program in a process of its own."""
    command = [sys.executable, "-m", "refusal_eval", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "scripts"), "NO_COLOR": "1"}
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=environment)


def in_process(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the program in this process, and Snakemake in forks, which saves the starts of others."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _snakemake_forked():
        code = main(arguments)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def _snakemake_forked() -> Iterator[None]:
    """Let the verbs that start Snakemake fork it; test_recorded.py has them start it in a process of its own."""
    forked = SimpleNamespace(run=_run, Popen=_Popen, PIPE=subprocess.PIPE, STDOUT=subprocess.STDOUT)
    with pytest.MonkeyPatch.context() as patch:
        for module in ("program.snakemake_summary", "tools.verify.verify_command", "tools.bench.bench_command", JUDGE):
            if module == JUDGE and "recorded_logs" not in FEATURES:
                continue
            patch.setattr(f"refusal_eval.{module}.subprocess", forked)
        yield


def _run(
    command: Sequence[str],
    *,
    capture_output: bool = False,
    text: bool = False,
    env: Mapping[str, str] | None = None,
    stdout: TextIO | None = None,
    stderr: int | None = None,
) -> subprocess.CompletedProcess[str]:
    assert list(command[:3]) == [sys.executable, "-m", "snakemake"] and text == capture_output
    run = run_snakemake(command[3:], Path.cwd(), {**(os.environ if env is None else env), "NO_COLOR": "1"})
    if not capture_output:
        assert (stdout is None) == (stderr is None)
        print(run.stdout + run.stderr, file=stdout or sys.stderr)
    return run


class _Popen(contextlib.nullcontext[Any]):
    """A run that is over when it starts, both of whose streams are read as one."""

    def __init__(self, command: Sequence[str], *, stdout: int, stderr: int, text: bool, env: Mapping[str, str]) -> None:
        super().__init__(self)
        assert (stdout, stderr, text) == (subprocess.PIPE, subprocess.STDOUT, True)
        run = _run(command, capture_output=True, text=True, env=env)
        self.stdout, self.returncode = io.StringIO(run.stdout + run.stderr), run.returncode
