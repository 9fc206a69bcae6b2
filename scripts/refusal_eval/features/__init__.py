"""Features: a folder for each thing that a study can do without, with all that belongs to it (docs/extending.md)."""

# In the order in which the methods section speaks of them. A feature goes with its folder and its name here.
FEATURES = ("comparisons", "tradeoff", "variation", "corrected", "battles", "lora", "steering")
