"""Lists and numbers in sentences."""

from collections.abc import Iterable


def listed(texts: Iterable[str]) -> str:
    """Return texts as a list in a sentence: a, b and c; where one has a comma itself, "a; b, with c; and d"."""
    *first, last = list(texts) or [""]
    if not any(", " in text for text in (*first, last)):
        return f"{', '.join(first)} and {last}" if first else last
    if len(first) > 1:
        return f"{'; '.join(first)}; and {last}"
    return f"{first[0]}{',' if ', ' in first[0] else ''} and {last}" if first else last


def count_text(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: 1 prompt, 2 prompts, 1,000 prompts."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
