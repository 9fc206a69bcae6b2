"""What one load of an engine does with a change of its models: what it serves, how it shows that it does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from refusal_eval.config.change import changes

if TYPE_CHECKING:
    from refusal_eval.ask.pending import Pending
    from refusal_eval.core.time_limit import TimeLimit
    from refusal_eval.engines.engine_base import RunningEngine

PostJson = Callable[[str, Mapping[str, Any]], Awaitable[Any]]  # posts JSON to an endpoint of the server


class LoadedChange:
    """What a load does with one change of its models. As it is here, it needs nothing.

    Attributes:
        name: the name of the change.
        reported: what `report` returns, for messages.
    """

    name: ClassVar[str]
    reported: ClassVar[str] = ""

    def __str__(self) -> str:
        """Return the entry that makes the change, for messages."""
        raise NotImplementedError

    def asked_by(self, pending: Sequence[Pending]) -> Self | None:
        """Return the part that these requests ask for, its files as they were identified; None where they ask for none.

        Without requests it is all there is.

        Raises:
            UserError: for files that have changed, and for what one load cannot serve.
        """
        raise NotImplementedError

    def refuse_changed(self) -> None:
        """Raise `UserError` for files that are not as they were when they were identified: they have another key."""

    def without_paths(self) -> Self:
        """Return a copy without paths of this machine, for the serving record."""
        return self

    def options(self) -> dict[str, Any]:
        """Return the options of vLLM's server that apply the change."""
        return {}

    def last_options(self, device: str | None, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return options that must follow the user's own, `given`."""
        return {}

    async def prove(self, ask: PostJson, folder: str) -> dict[str, Any]:
        """Let a started server show that it applies the change; return what the serving record says of it.

        Args:
            ask: posts to the server.
            folder: its private folder.

        Raises:
            UserError: if it does not.
        """
        return {}

    def refusal(self, folder: str) -> str:
        """Return the server's reason for refusing the change, a sentence and a space; else an empty string."""
        return ""

    async def probe(
        self, engine: RunningEngine, pending: Sequence[Pending], limit: TimeLimit | None = None
    ) -> dict[str, Any]:
        """Ask the engine, before anything is stored, whether it applies the change; return what the receipt says of it.

        Raises:
            UserError: if it does not, or if the engine dies or hangs, or the time limit is reached.
        """
        return {}

    async def report(self, ask: PostJson, folder: str) -> dict[str, Any]:
        """Return what the server counted of the change since it was last asked.

        Raises:
            ConnectionError: if it does not say.
        """
        return {}

    def keep(self, report: Mapping[str, Any], store_file: Path) -> None:
        """Keep a report with the responses of its load: other studies that take them need to know."""

    def receipt(self, store_files: Collection[Path]) -> dict[str, Any]:
        """Return the receipt's entry on the loads that wrote these store files."""
        return {}

    def accept(self, receipt: Mapping[str, Any], log: Path, by_the_user: bool) -> None:
        """Raise `UserError` if the answers are not those of the changed model, as far as the receipt shows.

        Args:
            receipt: see `receipt`.
            log: of the job; a file named after it notes what the user has already seen.
            by_the_user: whether the user starts it again after seeing the same, and so accepts the answers.
        """


def loaded_changes(files: Mapping[str, Sequence[str]], folder: Path = Path()) -> list[LoadedChange]:
    """Return what a load does with the changes of its models.

    Args:
        files: the loaded files of the models by change (see `Change.loaded_file`).
        folder: to which paths in them are relative.
    """
    return [change.loaded(files[change.name], folder) for change in changes() if files.get(change.name)]
