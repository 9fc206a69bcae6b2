"""How text is split before byte-pair encoding, in tokenizers that are converted from GGUF files."""

import json
import unicodedata

import convert_gguf
import pytest
from tokenizers import Tokenizer, models

EMPTY = json.loads(Tokenizer(models.BPE()).to_str())


def pieces(kind: str, text: str) -> list[str]:
    tokenizer = Tokenizer.from_str(json.dumps(EMPTY | convert_gguf.BEFORE_ENCODING[kind]))
    text = tokenizer.normalizer.normalize_str(text) if tokenizer.normalizer else text
    return [text[start:end] for _, (start, end) in tokenizer.pre_tokenizer.pre_tokenize_str(text)]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("It's 1234 o'clock; WE'LL", ["It", "'s", " ", "1", "2", "3", "4", " o", "'clock", ";", " WE", "'LL"]),
        ("  two\n\n\tand ", [" ", " two", "\n\n", "\tand", " "]),
        ("x**2  # ok\r\n", ["x", "**", "2", " ", " #", " ok", "\r\n"]),
        (unicodedata.normalize("NFD", "caf\u00e9"), ["caf\u00e9"]),
    ],
)
def test_text_is_split_as_qwen_splits_it(text: str, parts: list[str]) -> None:
    assert pieces("qwen2", text) == parts


def test_text_is_split_as_smollm_splits_it() -> None:
    assert pieces("smollm", "It's 12.") == ["It", "'s", " ", "1", "2", "."]
