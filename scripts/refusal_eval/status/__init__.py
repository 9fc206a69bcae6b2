"""How far a study is, read from its files and the store; the CLI is scripts/show_status.py."""

from refusal_eval.status.study import StudyStatus, study_status

__all__ = ["StudyStatus", "study_status"]
