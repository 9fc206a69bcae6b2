"""Orders of words that look at no model: what an attribution has to beat."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from refusal_eval.data.text_units import words
from refusal_eval.features.attributions.focus_words import folded

RANDOM = "random word"

# Words that join others and name nothing: articles, pronouns, auxiliaries, prepositions, conjunctions, question words.
_FUNCTION_WORD_LIST = """
a an the this that these those some any no every each either neither both all such same other another
i me my mine myself you your yours yourself yourselves he him his himself she her hers herself it its itself
we us our ours ourselves they them their theirs themselves one someone anyone everyone something anything everything
who whom whose which what when where why how whether
am is are was were be been being do does did doing done have has had having can could may might must shall should
will would ought
about above across after against along among around as at before behind below beneath between beyond by despite down
during except for from in inside into like near of off on onto out outside over past per since through throughout
till to toward towards under until up upon via with within without
and or but nor so yet if then than because although though while unless not n't
very too also just only even still again ever never here there now please
i'm i've i'd i'll you're you've you'd you'll he's he'd he'll she's she'd she'll it's it'd it'll we're we've we'd
we'll they're they've they'd they'll that's there's here's who's what's where's when's why's how's let's whats
don't doesn't didn't isn't aren't wasn't weren't haven't hasn't hadn't can't cannot couldn't won't wouldn't
shouldn't mustn't mightn't
"""
_FUNCTION_WORDS = frozenset(_FUNCTION_WORD_LIST.split())


class UnitText(NamedTuple):
    """A unit of a prompt as the rules see it."""

    text: str
    words: list[str]  # folded


def unit_texts(texts: Iterable[str]) -> list[UnitText]:
    """Return units with their words."""
    return [UnitText(text, [_plain(text[begin:end]) for begin, end in words(text)]) for text in texts]


def frequencies(prompts: Iterable[Iterable[UnitText]]) -> Counter[str]:
    """Return in how many of these prompts each word occurs."""
    return Counter(word for units in prompts for word in {word for unit in units for word in unit.words})


def first_content(units: Sequence[UnitText], known: Mapping[str, int]) -> list[float]:
    """Value units with a content word before those without, and earlier ones before later ones."""
    number = len(units)
    content = [any(word not in _FUNCTION_WORDS for word in unit.words) for unit in units]
    return [float(number * has - place) for place, has in enumerate(content)]


def longest(units: Sequence[UnitText], known: Mapping[str, int]) -> list[float]:
    """Value units by their characters."""
    return [float(len(unit.text)) for unit in units]


def rarest(units: Sequence[UnitText], known: Mapping[str, int]) -> list[float]:
    """Value units by their rarest word: in how few prompts of the split it occurs."""
    return [-float(min((known[word] for word in unit.words), default=0)) for unit in units]


def at_random(units: Sequence[UnitText], known: Mapping[str, int]) -> list[float]:
    """Value all units alike."""
    return [0.0] * len(units)


WordRule = Callable[[Sequence[UnitText], Mapping[str, int]], list[float]]
WORD_RULES: Mapping[str, WordRule] = {
    RANDOM: at_random,
    "first content word": first_content,
    "longest word": longest,
    "rarest word": rarest,
}


def _plain(word: str) -> str:
    return folded(word).replace("\u2019", "'")
