"""The figures of a study, each of one judge; `style.save_figure` makes files of them."""

from refusal_eval.heatmap import rate_heatmap
from refusal_eval.histograms import c_histograms

__all__ = ["c_histograms", "rate_heatmap"]
