"""The results table: every number of a study once, with what it means."""
