"""The key `corrected` of a study file."""

from pydantic import Field

from refusal_eval.config.feature_keys import FeatureKeys
from refusal_eval.config.shapes import Entry, FilePath


class Corrected(Entry):
    """Rates corrected for the judge's errors (docs/reference/corrected_rates.md). Changing it runs no GPU job."""

    labels: FilePath = Field(
        description="JSON Lines with human labels on this study's answers, as `refusal-eval audit read` writes "
        "them (`audit/labels.jsonl` among the study's results), relative to this file. They give the rates `ppi`, the "
        "only corrected ones that may be a headline."
    )


class CorrectedKeys(FeatureKeys):
    """What a study says of corrected rates."""

    corrected: Corrected | None = Field(
        None, description="Rates corrected for the judge's errors with human labels on this study's answers."
    )
