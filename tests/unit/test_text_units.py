"""Words and sentences of a text, and the text without one of them."""

import itertools

import pytest

from refusal_eval.data.text_units import sentences, without, words

WORDS = {
    "Can I kill time?": ["Can", "I", "kill", "time"],
    "Don't shoot the teachers\u2019 dog, it\u2019s mine!": [
        "Don't",
        "shoot",
        "the",
        "teachers",
        "dog",
        "it\u2019s",
        "mine",
    ],
    "Self-defence \u2013 how-to, a--b": ["Self-defence", "how-to", "a", "b"],
    "3.5 or 1,000 km, see example.com.": ["3.5", "or", "1,000", "km", "see", "example.com"],
    "\u6211\u80fd\u6740\u6b7b\u65f6\u95f4\u5417\uff1f": list("\u6211\u80fd\u6740\u6b7b\u65f6\u95f4\u5417"),
    "GPU\u7684\u6027\u80fd": ["GPU", "\u7684", "\u6027", "\u80fd"],
    # Arabic with vowel signs and an Arabic question mark; Persian with an invisible joiner inside a word.
    "\u0643\u064e\u064a\u0652\u0641\u064e \u0623\u064e\u0642\u0652\u062a\u064f\u0644\u061f": [
        "\u0643\u064e\u064a\u0652\u0641\u064e",
        "\u0623\u064e\u0642\u0652\u062a\u064f\u0644",
    ],
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \u0628\u0631\u0648\u0645": [
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\u0628\u0631\u0648\u0645",
    ],
    "\u0939\u093f\u0928\u094d\u0926\u0940": ["\u0939\u093f\u0928\u094d\u0926\u0940"],
    # A family, a thumb with a colour, two flags, a heart on fire: each is one.
    "I \U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f44d\U0001f3fd\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7": [
        "I",
        "\U0001f469\u200d\U0001f469\u200d\U0001f467",
        "\U0001f44d\U0001f3fd",
        "\U0001f1e9\U0001f1ea",
        "\U0001f1eb\U0001f1f7",
    ],
    "\u2764\ufe0f\u200d\U0001f525!": ["\u2764\ufe0f\u200d\U0001f525"],
    "": [],
    "?! ...": [],
}
SENTENCES = {
    "Kill it. Why? \u201cNo.\u201d Yes": ["Kill it.", "Why?", "\u201cNo.\u201d", "Yes"],
    "Use e.g. this. It is 3.5 km.": ["Use e.g. this.", "It is 3.5 km."],
    "A list\n- one\n\n- two": ["A list", "- one", "- two"],
    "\u6740\u6b7b\u5b83\u3002\u4e3a\u4ec0\u4e48\uff1f": ["\u6740\u6b7b\u5b83\u3002", "\u4e3a\u4ec0\u4e48\uff1f"],
    "  \n ": [],
}


@pytest.mark.parametrize(
    ("find", "text", "wanted"), [(words, *c) for c in WORDS.items()] + [(sentences, *c) for c in SENTENCES.items()]
)
def test_the_units_of_a_text_and_what_is_between_them_are_the_text(find, text, wanted):
    found = find(text)
    assert [text[span.begin : span.end] for span in found] == wanted
    ends = [0, *(end for span in found for end in span), len(text)]
    assert ends == sorted(ends) and "".join(text[a:b] for a, b in itertools.pairwise(ends)) == text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Can I kill time?", ["I kill time?", "Can kill time?", "Can I time?", "Can I kill?"]),
        ("\u6740\u65f6\u95f4", ["\u65f6\u95f4", "\u6740\u95f4", "\u6740\u65f6"]),
        ('a "b" c', ['"b" c', 'a "" c', 'a "b"']),
        ("one\n two three\nfour", ["\n two three\nfour", "one\n three\nfour", "one\n two\nfour", "one\n two three\n"]),
    ],
)
def test_a_word_goes_with_the_spaces_before_it_and_lines_stay_apart(text, left):
    assert [without(text, span) for span in words(text)] == left
