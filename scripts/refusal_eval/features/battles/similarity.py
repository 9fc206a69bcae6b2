"""How alike a question and its answers are in their words: cosines of TF-IDF vectors."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy

from refusal_eval.stats.estimates.intervals import Floats

# A word; in scripts that are written without blanks (kana, Han) a character, as nothing there says where a word ends.
WORD = r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]|[^\W\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+"
DIGITS = 9  # that all machines agree on

Alike = tuple[float, float, float]  # first answer and question, second answer and question, both answers


def word_cosines(prompts: Sequence[Mapping[str, Any]]) -> dict[str, Alike]:
    """Return by prompt id the cosines of both answers to the question, and to each other; 0 for a text without words.

    Vectors have a dimension for each word of the split, in lower case, with tf (ln((1 + N) / (1 + df)) + 1): tf its
    occurrences in the text, df the texts of the split that have it, N their number (questions and answers alike).

    Args:
        prompts: of one split, each with its `battle`.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer  # late: it takes a second

    texts = [_question(prompt) for prompt in prompts]
    texts += [prompt["battle"]["answers"][side] for side in (0, 1) for prompt in prompts]
    try:
        vectors = TfidfVectorizer(token_pattern=WORD).fit_transform(texts)
    except ValueError:  # no text has a word
        return {prompt["id"]: (0.0, 0.0, 0.0) for prompt in prompts}
    question, first, second = (vectors[start : start + len(prompts)] for start in range(0, len(texts), len(prompts)))
    pairs = ((question, first), (question, second), (first, second))
    cosines = np.column_stack([_row_products(*pair) for pair in pairs])
    return {prompt["id"]: tuple(row) for prompt, row in zip(prompts, cosines.tolist(), strict=True)}


def _question(prompt: Mapping[str, Any]) -> str:
    return "\n".join(message["content"] for message in prompt["messages"] if message["role"] == "user")


def _row_products(one: scipy.sparse.csr_array, other: scipy.sparse.csr_array) -> Floats:
    """Return the inner product of each row with that of the same place; rows have length 1."""
    found: Floats = np.asarray(one.multiply(other).sum(axis=1), dtype=float).ravel()
    return np.round(found, DIGITS)
