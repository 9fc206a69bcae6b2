"""Library behind the refusal-eval workflow: typed, tested, and free of work at import time.

Its rooms, from the lowest; each may import those before it (pyproject.toml has the contracts):

core        files, states, errors, logs, hashes
config      schemas of study and catalogue, mistakes in them, the lock file
study       a validated study: batches, paths, sources
data        rows, prompts, gold
weights     fetching and identifying weights and adapters
ask         keys, requests, rendering, reasoning, the store, answers
engines     servers and their clients, leases of devices, executing
activations capturing the residual stream of models
judges      kinds of judge and their verdicts
stats       estimates, intervals, comparisons, agreement
report      the results table, tables for a paper, the methods section
plots       figures
recorded    answers and verdicts that were recorded elsewhere
workflow    what the rules in workflow/rules/ ask
program     what the verbs of the program `refusal-eval` share
features    what a study can do without, a folder each
tools       the verbs of the program, a folder each
"""
