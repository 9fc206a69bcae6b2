"""How many decoder layers the model behind an engine has, as far as its files are here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from refusal_eval.config.engine_entry import Engine
from refusal_eval.config.source_entries import Source
from refusal_eval.core.text_config import LAYERS_KEY, of_text


def known_layers(engine: Engine, cache: str) -> int | None:
    """Return the number of an engine's decoder layers; None before its weights, which tell it, are here.

    Args:
        cache: the folder of copies of weights.
    """
    found = (layers_in(folder) for folder in _folders(getattr(engine, "weights", None), cache))
    return next((count for count in found if count is not None), None)


def layers_in(folder: str | Path) -> int | None:
    """Return the number of decoder layers that a model's folder tells; None where it does not."""
    try:
        config = json.loads(Path(folder, "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None  # other checks tell of it
    found = of_text(config).get(LAYERS_KEY) if isinstance(config, dict) else None
    return found if type(found) is int else None


def _folders(weights: Any, cache: str) -> Iterator[Path]:
    """Yield where the files of weights lie: their own folder, or copies in the cache, of which manifests tell."""
    if isinstance(path := getattr(weights, "path", None), str):
        yield Path(path)
    if not isinstance(weights, Source) or path is not None:
        return
    for name in ("tokenizer_manifest.json", "weights.json"):
        manifest = Path(cache, "weights", weights.copy_id, name)
        try:
            yield manifest.parent / json.loads(manifest.read_text(encoding="utf-8"))["folder"]
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            continue  # not fetched yet
