"""Progress of one engine load: on the console as a bar, in the log as a line now and then, in total and per cell."""

import datetime
import logging
import time
from collections import Counter
from collections.abc import Iterable, Mapping

from tqdm import tqdm

LOG = logging.getLogger(__name__)
SECONDS_BETWEEN_LINES = 30.0
CELLS_IN_A_LINE = 8
# Before, the first answers say nothing of the rest: the first ones wait for the engine, and for each other.
LEAST_SHARE, LEAST_SECONDS, LONG_ENOUGH = 0.05, 30.0, 600.0
WITHOUT_TIME_LEFT = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}, {rate_fmt}{postfix}]"


class Progress:
    """Counts what has been answered, and says so. Each cell is given as often as it has requests to be executed."""

    def __init__(self, cells: Iterable[str]) -> None:
        self._todo = Counter(cells)
        self._done: Counter[str] = Counter()
        self._tokens = self._generated = 0
        self._cache: float | None = None
        self._note = ""
        self._started = self._said = time.monotonic()
        # `disable=None`: no bar where standard error is no terminal, such as in a log of Slurm's.
        self._bar = tqdm(
            total=self._todo.total(),
            unit="request",
            smoothing=0.05,
            mininterval=2.0,
            disable=None,
            bar_format=WITHOUT_TIME_LEFT,
        )

    def done(self, cell: str, tokens: int = 0) -> None:
        """Count a finished request, with the tokens generated for it."""
        self._tokens += tokens
        self._done[cell] += 1
        if self._foresees():
            self._bar.bar_format = None
        self._bar.update()
        if self._done[cell] == self._todo[cell]:
            LOG.info("%s: all %d requests done", cell, self._todo[cell])
        self.log_if_due()

    def drop(self, cell: str, count: int) -> None:
        """Count `count` requests less: later turns of a prompt that ended early."""
        if count:
            self._todo[cell] -= count
            self._bar.total -= count
            self._bar.refresh()

    def engine_counters(self, counters: Mapping[str, float]) -> None:
        """Take in the engine's own counters (see `Engine.metrics`)."""
        if not counters:
            return
        self._generated = int(counters["generated_tokens"])
        queries = counters["prefix_cache_queries"]
        self._cache = counters["prefix_cache_hits"] / queries if queries else None
        self._bar.set_postfix_str(", ".join(self._rates()), refresh=False)

    def note(self, text: str) -> None:
        """Take in what the engine says for people (see `RunningEngine.note`)."""
        if text != self._note:
            self._note = text
            self._bar.set_postfix_str(", ".join(self._rates()), refresh=False)

    def log_if_due(self) -> None:
        """Write a line into the log if the last one is half a minute old."""
        if time.monotonic() - self._said > SECONDS_BETWEEN_LINES:
            self.log_now()

    def log_now(self) -> None:
        """Write a line into the log now."""
        self._said = time.monotonic()
        done, total = self._done.total(), self._todo.total()
        seconds = self._said - self._started
        left = "time left unknown"
        if self._foresees():
            left = f"about {datetime.timedelta(seconds=round((total - done) * seconds / done))} left"
        LOG.info("%s", ", ".join([f"{done} of {total} requests", *self._rates(), left]))
        if len(self._todo) > 1:
            LOG.info("by cell: %s", cells_line(self._done, self._todo))

    def close(self) -> None:
        """Write the last line."""
        self._bar.close()
        self.log_now()

    def _foresees(self) -> bool:
        """Return whether enough is done to say how long the rest takes."""
        done, seconds = self._done.total(), time.monotonic() - self._started
        enough = done >= LEAST_SHARE * self._todo.total() or seconds >= LONG_ENOUGH
        return bool(done) and enough and seconds >= LEAST_SECONDS

    def _rates(self) -> list[str]:
        seconds = max(time.monotonic() - self._started, 1e-9)
        # Long answers take minutes before the first one is whole; some engines report no tokens at all.
        tokens = max(self._tokens, self._generated)
        rates = [f"{tokens / seconds:.0f} tokens/s"] if tokens else []
        if self._cache is not None:
            rates.append(f"{100 * self._cache:.0f} % of prompt tokens from the cache")
        if self._note:
            rates.append(self._note)
        return rates


def cells_line(done: Mapping[str, int], todo: Mapping[str, int]) -> str:
    """Return how far the cells at work are: `a/b 12/40, ...`, then how many are complete and how many not begun."""
    complete = sum(done.get(cell, 0) >= count for cell, count in todo.items())
    begun = [cell for cell, count in todo.items() if 0 < done.get(cell, 0) < count]
    parts = [f"{cell} {done[cell]}/{todo[cell]}" for cell in begun[:CELLS_IN_A_LINE]]
    if len(begun) > CELLS_IN_A_LINE:
        parts.append(f"{len(begun) - CELLS_IN_A_LINE} more at work")
    parts.append(f"{complete} of {len(todo)} complete")
    return ", ".join(parts)
