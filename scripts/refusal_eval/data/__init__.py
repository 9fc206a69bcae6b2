"""Prompts and gold: fetched at a locked revision, read without changing a character, checked row by row."""
