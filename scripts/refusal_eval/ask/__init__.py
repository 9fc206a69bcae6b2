"""What an engine is asked and what came of it: requests and their keys, rendering, the store, answers.

It is larger than other rooms because these name each other: a later turn is rendered from answers out of the store.
"""
