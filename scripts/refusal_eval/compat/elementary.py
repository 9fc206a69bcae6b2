"""Exponential and logarithm by the torch of an engine environment, for the last bit of the published numbers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np

from refusal_eval.compat.float32 import Elementary, Vector
from refusal_eval.core.errors import UserError

SCRIPT = Path(__file__).resolve().parents[2] / "torch_elementary.py"


def torch_elementary(python: str) -> Elementary:
    """Return the functions as torch computes them; each call starts a process, so pass it long vectors.

    Args:
        python: Python of an engine environment.

    Raises:
        UserError: when called, if that Python or its torch does not run.
    """

    def function(name: str, values: Vector) -> Vector:
        data = np.ascontiguousarray(values, dtype="<f4").tobytes()
        try:
            run = subprocess.run([python, str(SCRIPT), name], input=data, capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            told = getattr(error, "stderr", b"") or str(error).encode()
            last = told.decode("utf-8", "replace").strip().splitlines()[-1]
            raise UserError(f"the torch of {python} cannot compute {name}: {last}") from error
        return np.frombuffer(run.stdout, dtype="<f4").astype(np.float32)

    return Elementary("torch", lambda values: function("exp", values), lambda values: function("log", values))
