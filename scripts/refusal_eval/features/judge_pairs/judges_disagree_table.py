"""The answers that a study's judges label differently, as a CSV."""

import pandas as pd

from refusal_eval.config.report_sections import JUDGES
from refusal_eval.report.paper.table_data import TableData, TableParts
from refusal_eval.report.paper.table_kind import StudyTable


def judges_disagree(data: TableData) -> TableParts:
    """Return the answers that the judges disagree on most, a row for each."""
    disputed = data.found("judge_agreement")["disputed"]
    return pd.DataFrame(disputed["rows"], columns=disputed["columns"], dtype=object), []


class JudgesDisagreeTable(StudyTable):
    """Answers on which judges disagree, as a CSV only."""

    name = "judges_disagree"
    of_analysis = "judge_agreement"
    needs = ("judge_agreement",)
    shows = ()
    report = (JUDGES, "Answers in dispute")
    typeset = False
    make = staticmethod(judges_disagree)
