"""`refusal-eval bench-judges`: judges of a study measured on its gold, ranked, with their speed, on one page."""
