"""How many requests an engine is given at one time."""

from __future__ import annotations

from typing import Any

import pytest
from engine_entries import engine_of


@pytest.mark.parametrize(
    ("args", "replicas", "device", "expected"),
    [
        ({}, 1, "cpu", 1024),
        ({}, 1, "cuda", 2048),
        ({}, 8, "cuda", 16_384),
        ({"max-num-seqs": 64}, 1, "cuda", 1024),
        ({"max_num_seqs": 3000}, 2, "cuda", 12_000),
    ],
)
def test_as_many_requests_wait_at_the_engine_as_it_batches(
    args: dict[str, Any], replicas: int, device: str, expected: int
) -> None:
    assert engine_of({"args": args, "data_parallel": replicas}).most_at_once(device) == expected
