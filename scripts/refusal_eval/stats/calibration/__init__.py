"""From a judge's probabilities to labels and to probabilities that mean what they say, fitted on gold."""
