"""Configuration: catalogue entries, the study, and one message with all mistakes."""

from refusal_eval.config.load_study import load_study, study_values
from refusal_eval.config.problems import ConfigError

__all__ = ["ConfigError", "load_study", "study_values"]
