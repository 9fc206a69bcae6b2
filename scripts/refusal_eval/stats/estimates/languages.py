"""The language of a prompt, by its source or its script."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from refusal_eval.core.texts import nfkc

# Columns of a source that a split may keep (`columns.keep`) and that name a prompt's language.
COLUMNS = ("language", "lang", "locale")
# Scripts by which languages are told apart where no column names them, by the first word of a letter's name in Unicode;
# other words are the script's own name.
_SCRIPTS = {
    "LATIN": "Latin",
    **dict.fromkeys(("CJK", "IDEOGRAPHIC"), "Chinese"),
    **dict.fromkeys(("HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"), "Japanese"),
    "HANGUL": "Korean",
}
OWN = 0.1  # least share of kana among them and Chinese characters in a Japanese text; of hangul in a Korean one
LATIN, OTHER = 0.6, 0.3  # least shares of the letters of a text that is in a script: names in Latin letters are common


def language_of(prompt: Mapping[str, Any]) -> str | None:
    """Return a prompt's language: by a column that the split keeps, else the script of most of its last message.

    A Chinese, Japanese or Korean character counts as three letters, about what it says. None for a text without
    letters, and where no script has enough of them.
    """
    kept = prompt["source"].get("kept") or {}
    for column in COLUMNS:
        if kept.get(column):
            return str(kept[column])
    counts: Counter[str] = Counter()
    for letter, number in Counter(nfkc(str(prompt["messages"][-1]["content"]))).items():
        if letter.isalpha():
            word = unicodedata.name(letter, "UNKNOWN").split()[0]
            counts[_SCRIPTS.get(word, word.capitalize())] += number
    han, whose = counts.pop("Chinese", 0), max(("Japanese", "Korean"), key=lambda script: counts[script])
    counts[whose if counts[whose] and counts[whose] >= OWN * (counts[whose] + han) else "Chinese"] += han
    for script in ("Chinese", "Japanese", "Korean"):
        counts[script] *= 3
    latin, total = counts.pop("Latin", 0), counts.total()
    best, most = max(counts.items(), key=lambda item: item[1])
    if most and most >= max(OTHER * (latin + total), LATIN * total):
        return f"{best} script"
    return "Latin script" if latin and latin >= LATIN * (latin + total) else None


def languages_of(prompts: Iterable[Mapping[str, Any]]) -> dict[str, str | None]:
    """Return each prompt's language by its id."""
    return {prompt["id"]: language_of(prompt) for prompt in prompts}
