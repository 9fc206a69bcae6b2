"""Vocabulary, files, errors, logs and hashes. Imports no other room."""
