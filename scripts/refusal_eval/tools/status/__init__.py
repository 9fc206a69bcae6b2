"""How far a study is, read from its files and the store; the CLI is scripts/show_status.py."""

from refusal_eval.tools.status.study_status import StudyStatus, study_status

__all__ = ["StudyStatus", "study_status"]
