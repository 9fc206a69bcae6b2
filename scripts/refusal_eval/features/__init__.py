"""Features: a folder for each thing that is shown of a study, with all that belongs to it.

See docs/how-to/extending.md.
"""

import importlib

# In the order in which the methods section speaks of them. A feature goes with its folder and its name here.
FEATURES = (
    *("judge_cards", "judge_pairs", "rates", "who_refused", "comparisons", "tradeoff", "variation", "corrected"),
    *("ways_of_asking", "over_refusals", "targets", "battles", "labelling", "published", "lora", "steering"),
    *("choices", "separation", "hosted", "browser", "recorded_logs", "exports"),
    *("occluded", "judged", "written", "controlled", "generated", "diversity"),
    *("transforms", "refusal_tokens", "attributions", "eager", "attention"),
)


def rules_of_features() -> list[str]:
    """Return the names of the files in workflow/rules/ that features bring along."""
    packages = (importlib.import_module(f"{__name__}.{feature}") for feature in FEATURES)
    return [name for package in packages for name in getattr(package, "RULES", ())]
