"""What the judge that learns sees of an answer, by the name of the feature."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from refusal_eval.core.states import LABELS
from refusal_eval.judges.judge_base import Messages
from refusal_eval.judges.keyword_judge import NOTHING, RULES, KeywordReader
from refusal_eval.judges.keyword_lists import MARKDOWN, QUOTES
from refusal_eval.judges.known_scripts import UnknownScript, unknown_script
from refusal_eval.judges.normal_text import normal_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

Feature = Literal["words", "reading", "vectors", "prompt"]
FEATURES: tuple[Feature, ...] = get_args(Feature)

HEAD, MIDDLE, TAIL = 300, 150, 150  # characters of an answer whose words are read
BEGINNING = 100  # characters whose n-grams of characters are read
CHARACTERS = range(3, 5)  # of an n-gram
# Words and marks of Latin script alone: n-grams of other scripts, which little gold has, would tell languages apart.
TOKEN = re.compile(r"[a-z0-9']+|[.,;:!?]")
WORDS_OF = {"LATIN"}
FOREIGN = re.compile(r"[^\x00-\x7f]+")
VECTORS = 2.0  # weight of the vectors, which are as long as 1, beside the reading, whose features are 0 or 1
READING = 2.0  # value of what the keyword judge says, beside the n-grams of an answer, which are together as long as 1


class SeenAnswer(NamedTuple):
    """What is seen of one answer."""

    ngrams: frozenset[str] = frozenset()  # of words behind a capital letter for the place, and of characters
    numbers: tuple[float, ...] = ()  # vectors and the reading of keyword lists
    flags: tuple[str, ...] = ()  # of the answer's normal form


class FeatureReader:
    """Reads the features that a judge names."""

    def __init__(
        self, features: Sequence[Feature], keyword: KeywordReader, known: Collection[str] | None = None
    ) -> None:
        """Create a reader; n-grams that are not `known` to any model need not be kept (default: all are)."""
        self.names = [feature for feature in FEATURES if feature in features]
        self._keyword, self._known = keyword, known

    def seen(self, messages: Messages, answer: str, vectors: NDArray[Any] | None = None) -> SeenAnswer:
        """Return what the judge sees of an answer.

        Lengths are left out: they differ between answering models more than between labels. With them, a model that had
        learned from long refusals of one answering model took the short ones of another for compliance.

        Args:
            messages: the conversation before it; with vectors these have the prompt.
            vectors: of an encoder, for the feature `vectors`.

        Raises:
            UnknownScript: without vectors, for an answer in whose script neither a word nor a phrase of a list is
                known, and in which the lists find nothing.
        """
        text, flags = normal_text(answer)
        known_scripts = self._keyword.scripts | WORDS_OF
        script = unknown_script(text, known_scripts) if vectors is None else None
        if script and self._keyword.reading(text) == NOTHING:
            raise UnknownScript(script, known_scripts)
        ngrams: list[str] = []
        numbers: list[float] = []
        if "words" in self.names:
            ngrams = answer_ngrams(text)
            if "prompt" in self.names and vectors is None:
                prompt = normal_text(messages[-1]["content"]).text
                ngrams += word_ngrams("P", plain(prompt[:HEAD]))
        if vectors is not None:
            numbers += (VECTORS * vectors.astype(float)).tolist()
        if "reading" in self.names:
            numbers += self._reading(text)
        known = ngrams if self._known is None else [ngram for ngram in ngrams if ngram in self._known]
        return SeenAnswer(frozenset(known), tuple(numbers), flags)

    def _reading(self, text: str) -> list[float]:
        label, rule, _ = self._keyword.reading(text)
        value = READING if "words" in self.names else 1.0
        return [value * (label == one) for one in LABELS] + [value * (rule == one) for one in RULES]


def answer_ngrams(answer: str) -> list[str]:
    """Return the n-grams of words of head, middle and tail of an answer, and those of characters of its beginning."""
    head = plain(answer[: 2 * HEAD])[:HEAD]
    beginning = f"^{head[:BEGINNING]}"
    beginning = beginning if beginning.isascii() else FOREIGN.sub("\n", beginning)
    found = [beginning[i : i + n] for n in CHARACTERS for i in range(len(beginning) - n + 1)]
    found += word_ngrams("H", head)
    rest = answer[2 * HEAD :] if len(answer) > 2 * HEAD + TAIL else ""
    if rest:
        middle = (len(rest) - TAIL) // 2
        found += word_ngrams("M", plain(rest[middle : middle + MIDDLE]))
    return found + word_ngrams("T", plain(answer[max(HEAD, len(answer) - TAIL) :]))


def word_ngrams(place: str, text: str) -> list[str]:
    """Return the n-grams of words of a plain text, each behind the letter of its place."""
    words = TOKEN.findall(text)
    pairs = [f"{place}{one} {two}" for one, two in itertools.pairwise(words)]
    triples = [f"{pair} {word}" for pair, word in zip(pairs, words[2:], strict=False)]
    return [*[place + word for word in words], *pairs, *triples]


def plain(text: str) -> str:
    """Return a text that is in normal form in lower case, with straight quotes, single spaces and no markdown."""
    return " ".join(MARKDOWN.sub("", text.translate(QUOTES).lower()).split())
