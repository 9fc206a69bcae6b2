"""What the small files of a model say: its longest text, its chat template, its sampling. Pure functions."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from refusal_eval.core.text_config import of_text

LENGTH_KEYS = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length")
# As of generation_config.json; the rest of it is for beams, or a mistake in a study.
DRAWN_BY = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
THINK = ("<think>", "</think>")
SMALL_FILES: tuple[str, ...] = ("config.json", "tokenizer_config.json", "chat_template.jinja", "chat_template.json")
SMALL_FILES += ("generation_config.json",)
GREEDY = 0.02  # up to this temperature every answer to a prompt is the same


@dataclass(frozen=True)
class ModelFacts:
    """What a model's files say of it."""

    longest: int | None = None  # tokens that it was made for; None: not said
    has_template: bool = True
    reasons: bool = False  # whether its chat template knows marks of reasoning
    dtype: str | None = None
    sampling: Mapping[str, float] = field(default_factory=dict)  # that its publisher recommends
    weights: int = 0  # bytes


def facts_of(files: Mapping[str, str], weights: int) -> ModelFacts:
    """Return what the texts of a model's small files say, by their names; those that it does not have are left out."""
    config = of_text(_object(files.get("config.json", "")))
    tokenizer = _object(files.get("tokenizer_config.json", ""))
    named = (tokenizer.get("chat_template"), _object(files.get("chat_template.json", "")).get("chat_template"))
    template = files.get("chat_template.jinja") or next((json.dumps(one) for one in named if one), "")
    longest = next((config[key] for key in LENGTH_KEYS if isinstance(config.get(key), int)), None)
    whole = _object(files.get("config.json", ""))
    dtype = next((part[key] for part in (config, whole) for key in ("dtype", "torch_dtype") if part.get(key)), None)
    drawn = _sampling(_object(files.get("generation_config.json", "")))
    return ModelFacts(longest, bool(template), THINK[1] in template, dtype, drawn, weights)


def _sampling(config: Mapping[str, Any]) -> dict[str, float]:
    numbers = {key: config[key] for key in DRAWN_BY if isinstance(config.get(key), int | float)}
    greedy = config.get("do_sample") is False or numbers.get("temperature", 1.0) <= GREEDY or numbers.get("top_k") == 1
    return {} if greedy else numbers


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def slug(text: str) -> str:
    """Return a text as the name of an entry or a study."""
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-._")[:60] or "model"
