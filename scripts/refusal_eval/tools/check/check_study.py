"""The small study behind a check: 8 bundled prompts, a few samples each, of one model of the catalogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

CHECKED = "checked"  # the model under the check's own name, with shorter answers
SAMPLES = 3
PROMPTS_PER_SPLIT = 4
SPLITS = {
    "gpu-check-safe": ("alarming_but_safe.jsonl", "comply"),
    "gpu-check-decline": ("should_decline.jsonl", "refuse"),
}
MOST_TOKENS = 64
MOST_REASONING_TOKENS = 2048  # or a reasoning model would not come to its end mark


def asking_study(model: str, catalogues: Sequence[str]) -> dict[str, Any]:
    """Return a study that only names the model: validated, it tells the model's entry, or that there is none.

    Whoever names a model for a check has allowed it.
    """
    return _study([model], 1, catalogues, ".cache") | {"splits": ["alarming_but_safe"], "allow": [model]}


def checking_study(entry: Mapping[str, Any], catalogues: Sequence[str], cache_dir: str) -> dict[str, Any]:
    """Return the study of the check.

    Args:
        entry: the model's validated entry.
        catalogues: the user's catalogue files, then the check's own.
        cache_dir: folder in which weights are found, or to which they are fetched.
    """
    return _study([CHECKED], 1 if is_greedy(entry) else SAMPLES, catalogues, cache_dir) | {"allow": [CHECKED]}


def checking_catalogue(model: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the catalogue of the check: the model with answers no longer than needed, and the prompts."""
    sampling = entry["sampling"]
    most = min(int(sampling["max_tokens"]), MOST_REASONING_TOKENS if entry["reasoning"] else MOST_TOKENS)
    shorter = {"max_tokens": most, "min_tokens": min(int(sampling["min_tokens"]), most)}
    splits = {
        name: {
            "source": {"kind": "bundled", "file": file},
            "expectation": expectation,
            "sample": {"size": PROMPTS_PER_SPLIT, "seed": 0},
        }
        for name, (file, expectation) in SPLITS.items()
    }
    return {
        "models": {CHECKED: {"like": model, "label": "the checked model", "sampling": shorter}},
        "datasets": {"gpu-check": {"splits": splits}},
    }


def is_greedy(entry: Mapping[str, Any]) -> bool:
    """Tell whether a model's sampling draws nothing."""
    return bool(entry["sampling"]["temperature"] == 0 or entry["sampling"]["top_k"] == 1)


def _study(models: list[str], samples: int, catalogues: Sequence[str], cache_dir: str) -> dict[str, Any]:
    return {
        "study": "gpu-check",
        "models": models,
        "splits": list(SPLITS),
        "samples": samples,
        "judges": ["keyword"],
        "catalogue": list(catalogues),
        "results_dir": "results",
        "store_dir": "results/store",
        "cache_dir": cache_dir,
        "batch": "engine",
    }
