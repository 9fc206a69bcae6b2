"""When an engine load stops: the least of what the study, the job and Slurm allow, with time to end well."""

import asyncio
import time

import pytest

from refusal_eval.core.time_limit import time_limit, within


def test_without_any_limit_there_is_none():
    assert time_limit(None, None, None, started=100.0) is None
    assert time_limit(None, "TBD", None, started=100.0) is None


@pytest.mark.parametrize(("minutes", "runtime"), [(10, None), (None, 10), (10, 500), (500, 10)])
def test_the_least_counts_and_some_time_is_kept_to_end_well(minutes, runtime):
    limit = time_limit(minutes, runtime, None, started=1000.0)
    assert limit.stop == 1000 + 600 - 30  # to stop the engine and write the receipt
    assert limit.take == limit.stop - 60  # for what is in flight


def test_of_a_short_limit_a_share_is_kept():
    limit = time_limit(0.5, None, None, started=0.0)
    assert (limit.take, limit.stop) == (24, 27)


def test_slurm_says_when_the_job_must_end():
    now = time.monotonic()
    limit = time_limit(10_000, None, 5000, started=now - 50, now=4000)
    assert limit.stop == pytest.approx(now + 1000 - 30, abs=2)
    assert not limit.take_is_over() and limit.seconds_left() > 900


def test_a_limit_that_is_over_leaves_nothing():
    limit = time_limit(1, None, None, started=time.monotonic() - 600)
    assert limit.take_is_over() and limit.stop_is_over() and limit.seconds_left() == 0


async def after_turns(turns):
    for _ in range(turns):
        await asyncio.sleep(0)
    return "answer"


def test_a_cancellation_that_comes_together_with_an_answer_is_not_lost():
    async def caller():
        await within(60, after_turns(6))
        await asyncio.sleep(60)

    async def cancelled_after(turns):
        task = asyncio.create_task(caller())
        await after_turns(turns)
        task.cancel()
        await asyncio.wait({task}, timeout=5)
        return task.cancelled()

    for turns in range(1, 16):
        assert asyncio.run(cancelled_after(turns)), turns


def test_what_is_given_up_is_not_waited_for_though_it_does_not_heed_its_cancellation():
    async def deaf():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(60)

    async def work():
        started = time.monotonic()
        with pytest.raises(TimeoutError, match=r"no answer after 0\.1 s"):
            await within(0.1, deaf())
        return time.monotonic() - started

    assert asyncio.run(work()) < 10


def test_an_answer_and_an_error_pass_through():
    async def fail():
        raise ConnectionError("no")

    assert asyncio.run(within(60, after_turns(3))) == "answer"
    with pytest.raises(ConnectionError, match="no"):
        asyncio.run(within(60, fail()))
