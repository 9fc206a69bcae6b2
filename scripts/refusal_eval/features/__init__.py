"""Features: a folder for each thing that is shown of a study, with all that belongs to it (docs/extending.md)."""

# In the order in which the methods section speaks of them. A feature goes with its folder and its name here.
FEATURES = (
    *("judge_cards", "judge_pairs", "rates", "comparisons", "tradeoff", "variation", "corrected", "battles"),
    *("labelling", "published"),
)
