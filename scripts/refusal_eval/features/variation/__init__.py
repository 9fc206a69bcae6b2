"""Where the variation between verdicts comes from: shares of the variance, and a mixed model (docs/statistics.md)."""

ANALYSES = {
    "variance": "variance_analysis:VarianceAnalysis",
    "mixed_model": "mixed_model_analysis:MixedModelAnalysis",
}
