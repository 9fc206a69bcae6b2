"""Judges that read what others said: those that combine it, and those that ask an engine where it decides nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from refusal_eval.config.judge_entry import JudgeEntry
from refusal_eval.judges.judge_base import Verdict

Row = Mapping[str, Any]

# The key of a deferring judge in the params of its jobs. With another name finished studies would render again.
DEFERRING = "cascade"


class CombiningJudge(JudgeEntry):
    """A judge whose verdicts are made of those of the judges that it reads (`reads`)."""

    way: ClassVar[Literal["verdicts"]] = "verdicts"

    def combined(
        self, votes: Sequence[tuple[str, Verdict | None]], flags: Mapping[str, Sequence[str]] | None = None
    ) -> Verdict:
        """Return its verdict on one answer.

        Args:
            votes: the name and the verdict (None where it gave none) of each judge that it reads, in their order.
            flags: the flags that each of them can raise.
        """
        raise NotImplementedError


class DeferringJudge(JudgeEntry):
    """A judge that asks an engine about the answers alone that the judges which it reads (`reads`) leave open.

    A judge of the catalogue is asked on its behalf (`second`); a kind that derives from `EngineJudge` too asks its own.
    The verdicts that it reads come as lines of verdicts files, in the order of `reads`, None for a judge without one.
    """

    way: ClassVar[Literal["engine"]] = "engine"

    def dividing(self) -> dict[str, Any]:
        """Return the part of the entry, its kind included, that decides which answers the engine is asked about."""
        return self.deciding()

    def settled(self, said: Sequence[Row | None]) -> dict[str, Any] | None:
        """Return the line of its verdicts on an answer that the others decide; None where the engine is asked."""
        raise NotImplementedError

    def deferred(self, row: Row, said: Sequence[Row | None]) -> dict[str, Any]:
        """Return the line of its verdicts on an answer that the engine was asked about, from that of `second`."""
        return dict(row)

    def settled_text(self, count: int) -> str:
        """Return how many answers of a cell the others decide, for the log."""
        return f"{count} answers are decided by {', '.join(self.reads())}, and the engine is not asked about them"

    def plan_assumes(self) -> str | None:
        """Return that it may ask less than is planned."""
        return (
            f"Until its requests are rendered, a judge of kind `{self.kind}` asks about every answer: an upper bound."
        )
