"""Forms in which a finished study is written for others: each is one class, found by `EXPORTERS` (config/kinds.py)."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from refusal_eval.core.errors import UserError

Level = Literal["labels", "answers", "all"]
LABELS: Level = "labels"  # no text of a prompt or an answer: states, labels, categories, rates
ANSWERS: Level = "answers"  # prompts and answers too, without what judges wrote
ALL: Level = "all"  # what judges wrote too
LEVELS: tuple[Level, ...] = (LABELS, ANSWERS, ALL)


class ExportOrder(NamedTuple):
    """What is to be exported.

    Attributes:
        config: the study.
        current: the files of the study that its next run would not make again.
        judge: whose verdicts; None: as the form has it.
        folder: where to.
        level: how much of them.
    """

    config: Mapping[str, Any]
    current: Collection[Path]
    judge: str | None
    folder: Path
    level: Level


class Exporter:
    """Writes a finished study in one form.

    Attributes:
        name: by which a user asks for it.
        writes: what it writes, in a few words, for the help and docs.
        levels: how much it can hold.
    """

    name: ClassVar[str]
    writes: ClassVar[str]
    levels: ClassVar[tuple[Level, ...]] = LEVELS

    @classmethod
    def own_folder(cls, results: Path, level: Level) -> Path:
        """Return where exports go where the user names no folder.

        Args:
            results: the folder of the study's results.
        """
        return results / "exports" / f"{cls.name}-{level}"

    def export(self, order: ExportOrder) -> list[str]:
        """Write the export; return what to say of it, a line each.

        Raises:
            UserError: if the study has not made what is exported, has changed since, or the folder is there already.
        """
        raise NotImplementedError

    def check(self, folder: Path) -> list[str]:
        """Compute what an export says again from what is in it; return the differences.

        Raises:
            UserError: if this form has no numbers to check, or the folder is no export.
        """
        raise UserError(f"`--check` is for forms with numbers of their own; `{self.name}` has none")
