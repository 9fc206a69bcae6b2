"""Log-probabilities as text: little-endian float32 in base64, exact and small."""

import base64
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def pack_floats(values: Sequence[float]) -> str:
    """Return base64 of the values as little-endian float32 (engines compute log-probabilities in float32)."""
    return base64.b64encode(np.asarray(values, dtype="<f4").tobytes()).decode("ascii")


def unpack_floats(text: str) -> npt.NDArray[np.float32]:
    return np.frombuffer(base64.b64decode(text), dtype="<f4")
