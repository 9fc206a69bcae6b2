"""From the prompts of a split to those that a transformed model is asked."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from refusal_eval.features.transforms.transform_kind import REASONS, SAME, PlainPrompt, Transform
from refusal_eval.stats.estimates.flags import UNTRANSFORMED


def transformed(
    prompts: Sequence[PlainPrompt], transform: Transform, read: Sequence[Sequence[PlainPrompt]]
) -> tuple[list[dict[str, Any]], str]:
    """Return the prompts as they are asked, with their own ids, and a note for the log.

    A prompt that keeps its own text has `untransformed`, with why (a key of `REASONS`).

    Args:
        read: the prompts of each split that the transform takes.
    """
    asked, counts = list[dict[str, Any]](), Counter[str]()
    change = transform.transformer(read)
    for prompt in prompts:
        found = change(prompt)
        reason = found if isinstance(found, str) else SAME if _same(found, prompt["messages"]) else None
        counts[reason or ""] += 1
        asked.append({**prompt, **({UNTRANSFORMED: reason} if reason else {"messages": found})})
    kept = ", ".join(f"{counts[reason]}: {words}" for reason, words in REASONS.items() if counts[reason])
    return asked, f"{counts['']} of {len(asked)} prompts changed" + (
        f"; the others keep their own text ({kept})" * bool(kept)
    )


def _same(found: Sequence[PlainPrompt], own: Sequence[PlainPrompt]) -> bool:
    """Tell whether messages differ in nothing but white space."""
    texts = ([(message["role"], message["content"].split()) for message in messages] for messages in (found, own))
    return next(texts) == next(texts)
