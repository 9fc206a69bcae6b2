"""Which words of a prompt are those that are to be found, by two rules."""

from collections.abc import Mapping

from refusal_eval.core.texts import nfkc
from refusal_eval.data.text_units import words

EXACT, SUBSTRING = "exact", "substring"
RULES: Mapping[str, str] = {
    EXACT: "a word is found where it is one of the words of the focus",
    SUBSTRING: "a word is found where it is a part of the focus, as XSB counts (a letter is one, too)",
}


def folded(text: str) -> str:
    """Return a text without the differences that do not count: of case, width and composition."""
    return nfkc(text).casefold()


def is_focus(unit: str, focus: str, rule: str) -> bool:
    """Tell whether a unit, a word or a sentence, is or holds a word that is to be found.

    Args:
        focus: the word or words to be found.
        rule: one of `RULES`.
    """
    whole = folded(focus)
    own = [folded(unit[begin:end]) for begin, end in words(unit)]
    if rule == SUBSTRING:
        return any(word in whole for word in own)
    return any(word in {whole[begin:end] for begin, end in words(whole)} for word in own)
