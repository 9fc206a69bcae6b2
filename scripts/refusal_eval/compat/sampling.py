"""How the published code draws answers, whatever its config says: temperature, top_p and top_k are read, not used."""

from __future__ import annotations

from collections.abc import Mapping

PUBLISHED_SAMPLING: Mapping[str, float | int] = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0}
