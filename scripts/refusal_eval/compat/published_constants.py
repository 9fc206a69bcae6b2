"""Numbers that are written into the published code, whatever its config says."""

from __future__ import annotations

TAU = 1.0  # of the softmax over log-probabilities
BAND = 0.1  # above it a prompt is rejected, below its negative complied with
