"""The keys of a study file about its comparisons."""

from typing import ClassVar, Literal

from pydantic import Field

from refusal_eval.config.feature_keys import FeatureKeys
from refusal_eval.features.comparisons.comparison_entries import ComparisonFamily


class ComparisonsKeys(FeatureKeys):
    """What a study says of its comparisons."""

    in_methods: ClassVar[tuple[str, ...]] = ("p_values",)

    comparisons: list[ComparisonFamily] | None = Field(
        None,
        description="Families of comparisons on the same prompts, each corrected separately "
        "(docs/reference/comparisons.md). Default: all pairs of up to ten models under the primary judge. An empty "
        "list compares nothing.",
    )
    p_values: Literal["exact", "mid"] = Field(
        "exact",
        description="For sign-flip tests and McNemar's test. `mid` gives half weight to outcomes exactly as extreme as "
        "the observed one: less conservative if few clusters differ, but sometimes above its level.",
    )
    multiple_comparisons: Literal["holm", "fdr_bh", "fdr_by"] = Field(
        "holm",
        description="Correction over each family. `holm` bounds the chance of any false alarm. The others bound the "
        "false discovery rate, for large families: `fdr_by` (Benjamini-Yekutieli) holds under any dependence, such as "
        "that of comparisons that share a model; `fdr_bh` (Benjamini-Hochberg) finds more but needs independent or "
        "positively dependent tests.",
    )
