"""What tables of a paper share: cells, notes, best values, Markdown and LaTeX."""
