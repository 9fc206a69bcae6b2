"""What the methods section says of a transform."""

from collections.abc import Mapping
from typing import Any

from refusal_eval.features.transforms.transform_kind import TRANSFORMS, Transform
from refusal_eval.report.methods.study_sources import quoted


def transform_words(value: Mapping[str, Any], manifest: Mapping[str, Any], model: str) -> str:
    """Return what a model was asked in place of the prompts."""
    transform: Transform = TRANSFORMS.entry(value)
    splits = manifest["study"]["split_entries"]
    return transform.in_words(quoted, lambda split: quoted(splits.get(split, {}).get("label") or split))
