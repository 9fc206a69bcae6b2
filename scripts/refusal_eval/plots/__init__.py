"""The figures of a study: a module for each kind, what they share, and the table of kinds (`plots.kinds`)."""
