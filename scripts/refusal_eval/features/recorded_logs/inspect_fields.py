"""Fields of a sample of inspect beside its texts: scores, metadata, log-probabilities, who stopped it."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from refusal_eval.features.recorded_logs.label_words import label_of
from refusal_eval.features.recorded_logs.own_log import own_probability

EXPECTATIONS = ("comply", "refuse", "varies")


def mean_logprob(logprobs: Any) -> float | None:
    """Return the mean log-probability of an answer's tokens; None where there is none."""
    tokens = logprobs.get("content") if isinstance(logprobs, dict) else None
    values = [one.get("logprob") for one in tokens if isinstance(one, dict)] if isinstance(tokens, list) else []
    found = [float(value) for value in values if isinstance(value, int | float)]
    return min(sum(found) / len(found), 0.0) if found else None


def block_of(details: Any, answer: str) -> dict[str, Any]:
    """Return who stopped an answer, as its stop details say it."""
    said = details if isinstance(details, dict) else {}
    block = {"category": said.get("category"), "code": said.get("type"), "partial": answer or None}
    levels = [one.get("level") for one in _listed(said.get("categories")) if isinstance(one, dict)]
    return {"severity": next(filter(None, levels), None)} | block


def usage_of(usage: Any) -> dict[str, int] | None:
    """Return the billed tokens; None where the log has none."""
    said = usage if isinstance(usage, dict) else {}
    names = ("input_tokens", "input_tokens_cache_read", "input_tokens_cache_write", "output_tokens")
    fresh, read, written, output = (said.get(name) or 0 for name in names)
    counts = (fresh, read, written, output)
    if not said or not all(isinstance(count, int) and count >= 0 for count in counts) or not any(counts):
        return None
    return {"input": fresh + read + written, "cached": read, "output": output}


def is_declared(content: Any) -> bool:
    """Tell whether a message is a refusal in a field of its own."""
    return any(isinstance(part, dict) and part.get("refusal") is True for part in _listed(content))


def labels_of(scores: Mapping[str, Any], counts: Counter[str]) -> list[dict[str, Any]]:
    """Return the scores that say something of refusals, and count the others."""
    labels = []
    for name, score in scores.items():
        if not isinstance(score, dict):
            continue
        found = label_of(score.get("value"), str(name)) | label_of(score.get("answer"), "")
        if not found:
            counts[f"scorer `{name}` says nothing of refusals, and is left out"] += 1
            continue
        reason = score.get("explanation")
        found |= own_probability(score)
        labels.append({"by": str(name), **found, "reason": reason if isinstance(reason, str) else None})
    return labels


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def about(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the metadata of a sample say of its prompt."""
    found = {name: str(metadata[name]) for name in ("category", "cluster") if metadata.get(name) not in (None, "")}
    return found | ({"expectation": metadata["expectation"]} if metadata.get("expectation") in EXPECTATIONS else {})
