"""From the prompts of a split to those that a transformed model is asked."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.features.transforms.focus_source import FOCUS
from refusal_eval.features.transforms.transform_kind import NO_WORD, REASONS, SAME, PlainPrompt, Transform
from refusal_eval.stats.estimates.flags import UNTRANSFORMED


def transformed(
    prompts: Sequence[PlainPrompt],
    transform: Transform,
    read: Sequence[Sequence[PlainPrompt]],
    words: Mapping[str, str | None] | None = None,
) -> tuple[list[dict[str, Any]], str]:
    """Return the prompts as they are asked, with their own ids, and a note for the log.

    A prompt that keeps its own text has `untransformed`, with why (a key of `REASONS`).

    Args:
        read: the prompts of each split that the transform takes.
        words: what stands for `{focus}` in the text of each prompt, by its id; None where the data says it.
    """
    asked, counts = list[dict[str, Any]](), Counter[str]()
    change = transform.transformer(read)
    for prompt in prompts:
        word = None if words is None else words.get(prompt["id"])
        found = NO_WORD if words is not None and word is None else change(_with_word(prompt, word))
        reason = found if isinstance(found, str) else SAME if _same(found, prompt["messages"]) else None
        counts[reason or ""] += 1
        asked.append({**prompt, **({UNTRANSFORMED: reason} if reason else {"messages": found})})
    kept = ", ".join(f"{counts[reason]}: {words}" for reason, words in REASONS.items() if counts[reason])
    return asked, f"{counts['']} of {len(asked)} prompts changed" + (
        f"; the others keep their own text ({kept})" * bool(kept)
    )


def _with_word(prompt: PlainPrompt, word: str | None) -> PlainPrompt:
    """Return a prompt with this word in place of its own cell; as it is with None."""
    source = prompt["source"]
    return prompt if word is None else {**prompt, "source": {**source, "kept": {**source.get("kept", {}), FOCUS: word}}}


def _same(found: Sequence[PlainPrompt], own: Sequence[PlainPrompt]) -> bool:
    """Tell whether messages differ in nothing but white space."""
    texts = ([(message["role"], message["content"].split()) for message in messages] for messages in (found, own))
    return next(texts) == next(texts)
