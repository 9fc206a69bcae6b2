"""Numbers that are written into the published code, whatever its config says."""

from __future__ import annotations

from collections.abc import Mapping

# How answers are drawn: temperature, top_p and top_k of a config are read, and not used.
PUBLISHED_SAMPLING: Mapping[str, float | int] = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0}

TAU = 1.0  # of the softmax over log-probabilities
BAND = 0.1  # above it a prompt is rejected, below its negative complied with
