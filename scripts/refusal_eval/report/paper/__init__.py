"""Tables for a paper: frames, captions and notes, Markdown and LaTeX.

Over 1,500 lines, as each analysis has a table of its own here.
"""
