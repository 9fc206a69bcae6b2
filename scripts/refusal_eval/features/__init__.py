"""Features: a folder for each thing that a study may have, with all that belongs to it (docs/extending.md)."""
