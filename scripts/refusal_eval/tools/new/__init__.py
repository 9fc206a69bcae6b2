"""A study of one's own, written from the names of models."""
