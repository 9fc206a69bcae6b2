"""The program `refusal-eval` as a user starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from project import ROOT


def refusal_eval(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the program in a process of its own."""
    command = [sys.executable, "-m", "refusal_eval", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "scripts"), "NO_COLOR": "1"}
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=environment)
