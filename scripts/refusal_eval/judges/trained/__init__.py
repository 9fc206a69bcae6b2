"""The judge that learns from gold: what it sees, its model, and the fits that show how well it does elsewhere."""
