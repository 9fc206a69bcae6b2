"""Where the variation between verdicts comes from: shares of the variance, and a mixed model.

See docs/reference/statistics.md.
"""

STUDY_KEYS = {"variation": "variation_keys:VariationKeys"}
CHECKS = {"mixed_model": "mixed_model_mistakes:mixed_model_mistakes"}
ANALYSES = {
    "variance": "variance_analysis:VarianceAnalysis",
    "mixed_model": "mixed_model_analysis:MixedModelAnalysis",
}
