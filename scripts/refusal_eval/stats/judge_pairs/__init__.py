"""Whether the judges of a study say the same of its answers, and what that changes."""
