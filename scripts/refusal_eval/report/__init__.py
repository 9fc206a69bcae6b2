"""What a reader sees of the numbers: the results table, tables for a paper, the methods section."""
