"""Numbers that are written into the published code, whatever its config says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# How answers are drawn: temperature, top_p and top_k of a config are read, and not used; of the rest nothing is asked.
PUBLISHED_SAMPLING: Mapping[str, Any] = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
    "min_tokens": 0,
    "stop": [],
}

TAU = 1.0  # of the softmax over log-probabilities
BAND = 0.1  # above it a prompt is rejected, below its negative complied with
