"""How far a study is, read from its files and the store."""
