"""The program `refusal-eval` as a user starts it."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

from project import ROOT

from refusal_eval.__main__ import main


def refusal_eval(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the program in a process of its own."""
    command = [sys.executable, "-m", "refusal_eval", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "scripts"), "NO_COLOR": "1"}
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=environment)


def in_process(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the program in this process, which saves the start of another: for verbs that only look."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())
