"""Estimands, intervals, comparisons and agreement: data frames in, estimates out.

Modules write `import scipy` alone: it loads its parts when they are first used, and whoever plans a study or typesets a
table imports these modules for names only.
"""
