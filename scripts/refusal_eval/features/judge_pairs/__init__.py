"""Judges among each other: whether they say the same of answers, and what that changes.

See docs/reference/agreement.md.
"""

ANALYSES = {"judge_agreement": "judge_agreement_analysis:JudgeAgreementAnalysis"}
TABLES = {
    "judges_agree": "judges_agree_table:JudgesAgreeTable",
    "judges_disagree": "judges_disagree_table:JudgesDisagreeTable",
}
FIGURES = {"judge_agreement": "judge_agreement_figure:JudgeAgreementFigure"}
