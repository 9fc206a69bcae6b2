"""The check of a model whose engine computes elsewhere; its kind of engine brings it (`Engine.trial`)."""

import abc
from collections.abc import Callable, Sequence

from refusal_eval.program.check_lines import CheckLine


class TrialElsewhere(abc.ABC):
    """A model on trial on somebody's server: what it is asked, and what is reported of it."""

    @abc.abstractmethod
    async def run(self, say: Callable[[str], None]) -> list[CheckLine]:
        """Ask the server everything; return a line for each check. An error that ends the load is a failed line.

        Args:
            say: shows a line to the user.
        """

    @abc.abstractmethod
    def rows(self) -> Sequence[tuple[str, str]]:
        """Return the lines at the head of the report: each a name and what it is, without texts, paths or secrets."""
