"""Refusal rates corrected for the errors of the judge."""
