"""When a server whose processes live is taken for dead."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from refusal_eval.engines.engine_client import Health
from refusal_eval.engines.server import ServerWatch

EVERY = 5.0  # seconds between looks
WELL, SILENT, UNWELL = Health.WELL, Health.SILENT, Health.UNWELL


def trouble(seen: Iterable[tuple[Health, float]], in_flight: int = 0) -> str | None:
    """Return what a watch says first, of (health, for how many seconds)."""
    watch, now = ServerWatch(stall_seconds=600), 100.0
    for health, seconds in seen:
        for _ in range(round(seconds / EVERY)):
            now += EVERY
            if found := watch.look(health, in_flight, now):
                return found
    return None


@pytest.mark.parametrize(
    "seen",
    [
        [(WELL, 100_000)],
        [(SILENT, 800)],
        [(SILENT, 800), (WELL, 5), (SILENT, 800)],
        [(SILENT, 800), (UNWELL, 5), (WELL, 5)],  # one refusal after long silence
        [(UNWELL, 10), (WELL, 5), (UNWELL, 10)],
    ],
)
def test_a_busy_server_may_be_silent_for_long(seen: list[tuple[Health, float]]) -> None:
    assert trouble(seen) is None


@pytest.mark.parametrize("seen", [[(SILENT, 1000)], [(WELL, 50), (UNWELL, 20)], [(SILENT, 500), (UNWELL, 20)]])
def test_one_that_is_not_well_for_long_is_dead(seen: list[tuple[Health, float]]) -> None:
    assert "has not been well for" in str(trouble(seen))


def looks(watch: ServerWatch, seconds: float, start: float, in_flight: int = 3) -> str | None:
    found = (watch.look(WELL, in_flight, start + EVERY * i) for i in range(1, round(seconds / EVERY) + 1))
    return next((said for said in found if said), None)


def test_a_server_whose_counters_stand_still_is_dead() -> None:
    watch = ServerWatch(stall_seconds=600)
    watch.counted({"generated_tokens": 7})
    assert looks(watch, 595, start=0) is None
    watch.counted({"generated_tokens": 8})
    assert looks(watch, 600, start=595) is None
    said = looks(watch, 10, start=1195)
    assert said is not None and "nothing has come of its 3 requests for 605 s" in said and "stall_timeout" in said


def test_a_server_without_requests_may_stand_still() -> None:
    watch = ServerWatch(stall_seconds=600)
    watch.counted({"generated_tokens": 7})
    assert looks(watch, 5000, start=0, in_flight=0) is None
    assert looks(watch, 595, start=5000) is None  # counted from its first request on


def test_a_server_that_never_counted_is_not_judged_by_its_counters() -> None:
    watch = ServerWatch(stall_seconds=600)
    watch.counted({"generated_tokens": 0.0})
    assert looks(watch, 5000, start=0) is None


def test_time_in_which_the_job_itself_stood_still_does_not_count() -> None:
    watch = ServerWatch(stall_seconds=600)
    watch.counted({"generated_tokens": 7})
    assert looks(watch, 400, start=0) is None
    assert watch.look(WELL, 3, 100_000.0) is None  # suspended for a day
    assert watch.look(SILENT, 3, 100_005.0) is None and watch.look(SILENT, 3, 200_000.0) is None
