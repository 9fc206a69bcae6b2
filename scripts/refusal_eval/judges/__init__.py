"""Judges: each reads (messages, answer) and returns a verdict. Kinds: keyword, llm (label probability), python."""
