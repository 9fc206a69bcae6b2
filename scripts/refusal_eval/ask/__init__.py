"""What an engine is asked and what came of it: requests and their keys, rendering, the store, answers."""
