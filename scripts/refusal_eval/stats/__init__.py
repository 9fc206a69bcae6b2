"""The numbers: estimates, intervals, comparisons, agreement. Frames and rows in, estimates out."""
