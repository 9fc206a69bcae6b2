"""Configuration: catalogue entries, the study, and one message with all mistakes."""
