"""Tables of a paper: one class for each, which declares its inputs and what it shows of the study, and makes it.

`TABLES` (config/kinds.py) finds the classes, and the rule `table` typesets each that a study wants.
"""

from typing import TYPE_CHECKING, ClassVar

from refusal_eval.report.paper.table_data import TableData, TableParts

if TYPE_CHECKING:  # what plans a study is not behind its numbers
    from refusal_eval.study.study import Study

OF_STUDY = ("models", "splits", "judges", "gold")
OF_PRIMARY = (*OF_STUDY, "primary_judge")


class StudyTable:
    """One table of a study: tables/{name}.{csv,md,tex,html}.

    Attributes:
        name: name of its files.
        needs: its inputs: nouns of the table of files (study/files.py), and names of analyses.
        shows: what it shows of the study file; with `primary_judge`, only that judge's cells and cards.
        report: its section in Snakemake's report (`config.report_sections`), and its name there.
        of_analysis: the analysis whose numbers it shows; a study without it has no such table.
        typeset: whether it is made for a paper; else it is a CSV alone, for a program or a spreadsheet.
        on_request: whether a study may ask for it under `tables`.
        engine_needs: what the engines of all models must be able to do for a study that asks for it (see `Capability`).
    """

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]]
    shows: ClassVar[tuple[str, ...]]
    report: ClassVar[tuple[str, str]]
    of_analysis: ClassVar[str | None] = None
    typeset: ClassVar[bool] = True
    on_request: ClassVar[bool] = False
    engine_needs: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def wanted(cls, study: "Study") -> bool:
        """Tell whether a study gets this table."""
        return True

    @classmethod
    def own_files(cls, study: "Study") -> dict[str, list[str]]:
        """Return what it is made of besides what `needs` names, such as a file that the user wrote, by noun."""
        return {}

    @staticmethod
    def make(data: TableData) -> TableParts:
        """Return the CSV's frame, and the tables for Markdown and LaTeX."""
        raise NotImplementedError
