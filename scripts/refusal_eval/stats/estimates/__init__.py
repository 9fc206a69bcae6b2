"""Rates of a cell and pooled ones, with intervals, spread and power of the samples.

Over 1,500 lines, as every other analysis starts from what is here: scores, samples, intervals, bootstrap.
"""
