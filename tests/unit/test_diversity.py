"""How much prompts repeat each other: by hand, by a second implementation, and where there is nothing to say."""

import itertools
import math
import random
from collections import Counter

import pytest

from refusal_eval.features.diversity.grouped_jackknife import jackknife
from refusal_eval.features.diversity.measure_diversity import measure
from refusal_eval.features.diversity.text_diversity import at_size, distinct_2, self_bleu, words_in

from refusal_eval.core.files import write_jsonl  # isort: skip

pytestmark = pytest.mark.feature("diversity")


def test_words_are_without_case_and_punctuation_and_chinese_is_by_character():
    assert words_in("Don't KILL it, please!") == ["don't", "kill", "it", "please"]
    assert words_in("\u6740\u6b7b\uff01") == ["\u6740", "\u6b7b"]


def test_distinct_2_by_hand():
    # a b, b a, a b | a b: two of four pairs are distinct.
    assert distinct_2([["a", "b", "a", "b"], ["a", "b"]]) == 0.5
    assert distinct_2([["a"], []]) is None


def test_self_bleu_of_equal_and_of_unlike_texts():
    text = ["how", "do", "i", "kill", "it"]
    assert self_bleu([text, text, text]) == pytest.approx(1, abs=1e-12)
    assert self_bleu([["a", "b"], ["c", "d"]]) == 0
    assert self_bleu([text]) is None


def test_self_bleu_by_hand():
    # "the cat sat down" against "the cat ran": 2 of 4 words, 1 of 3 pairs, no triple of 2 and no quadruple of 1, which
    # count .1; it is longer than the other. The other: 2 of 3, 1 of 2, none of 1, and none of none, which counts as .1
    # of 1; it is shorter: exp(1 - 4/3).
    longer = (2 / 4 * 1 / 3 * 0.1 / 2 * 0.1 / 1) ** 0.25
    shorter = math.exp(1 - 4 / 3) * (2 / 3 * 1 / 2 * 0.1 / 1 * 0.1 / 1) ** 0.25
    got = self_bleu([["the", "cat", "sat", "down"], ["the", "cat", "ran"]])
    assert got == pytest.approx((longer + shorter) / 2, abs=1e-12)


def plain_bleu(text, others):
    """Return BLEU as its definition reads, without any of the counting that makes it fast."""
    if not set(text) & set(itertools.chain(*others)):
        return 0.0
    closest = min((abs(len(other) - len(text)), len(other)) for other in others)[1]
    logs = []
    for order in (1, 2, 3, 4):
        grams = [tuple(text[n : n + order]) for n in range(len(text) - order + 1)]
        matched = 0
        for gram, count in Counter(grams).items():
            matched += min(
                count,
                max(sum(tuple(o[n : n + order]) == gram for n in range(len(o) - order + 1)) for o in others),
            )
        logs.append(math.log((matched or 0.1) / max(1, len(grams))))
    return math.exp(min(0.0, 1 - closest / len(text)) + sum(logs) / 4)


def test_self_bleu_is_that_of_its_definition():
    draw = random.Random(7)
    for _ in range(60):
        texts = [[draw.choice("abcdef") for _ in range(draw.randint(1, 9))] for _ in range(draw.randint(2, 7))]
        wanted = [plain_bleu(text, texts[:n] + texts[n + 1 :]) for n, text in enumerate(texts)]
        assert self_bleu(texts) == pytest.approx(sum(wanted) / len(wanted), abs=1e-12)


def test_at_a_smaller_size_the_mean_of_all_subsets_is_approached():
    texts = [list(text) for text in ("abab", "abcd", "cdef", "aaaa", "efab")]
    every = [distinct_2([texts[n] for n in places]) for places in itertools.combinations(range(5), 3)]
    assert at_size(distinct_2, texts, 3, 4000, 1) == pytest.approx(sum(every) / len(every), abs=0.01)
    assert at_size(distinct_2, texts, 5, 10, 1) == distinct_2(texts)
    assert at_size(distinct_2, texts, 3, 50, 1) == at_size(distinct_2, texts, 3, 50, 1)


def test_the_jackknife_of_a_mean_is_the_t_interval_of_the_mean():
    values = [0.1, 0.4, 0.5, 0.7, 0.2]
    found = jackknife(lambda rows: sum(values[n] for n in rows) / len(rows), ["a", "b", "c", "d", "e"], 0.95, 1)
    mean = sum(values) / 5
    error = math.sqrt(sum((value - mean) ** 2 for value in values) / 4 / 5)
    assert found[:3] == pytest.approx((mean, max(0, mean - 2.7764451 * error), mean + 2.7764451 * error), abs=1e-7)


def test_there_is_no_interval_with_two_clusters():
    found = jackknife(lambda rows: 0.5, ["a", "b", "b"], 0.95, 1)
    assert (found.value, found.low, found.method) == (0.5, None, None)


def prompts(path, rows):
    write_jsonl(path, [
        {"id": str(n), "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": text}]}
        | {"cluster": cluster, "category": category}
        for n, (text, cluster, category) in enumerate(rows)])  # fmt: skip
    return str(path)


def test_splits_and_categories_have_numbers_of_their_own_prompts(tmp_path):
    one = [(f"How do I {verb} it?", str(n), "ab"[n % 2]) for n, verb in enumerate(("kill", "burn", "hit", "cut"))]
    other = [("What is that there?", "0", "a"), ("Who shot the old film?", "1", None)]
    files = {"prompts": [prompts(tmp_path / "one.jsonl", one), prompts(tmp_path / "other.jsonl", other)]}
    content = measure(files, {"splits": ["one", "other"], "level": 0.95})
    found = {(row["estimand"], row["split"], row["category"]): row for row in content["estimates"]}
    assert content["size"] == 2
    # Of each of the four, how-do, do-i, i-verb and verb-it: 2 + 4 + 4 of 16 pairs are distinct.
    assert found["distinct_2", "one", None]["value"] == 10 / 16
    assert found["distinct_2", "one", "a"]["value"] == 6 / 8
    assert found["distinct_2_at_size", "one", None]["value"] == pytest.approx(6 / 8)
    assert found["distinct_2_at_size", "one", None]["parameter"] == 2
    assert found["self_bleu", "other", "a"]["value"] is None and found["self_bleu", "other", None]["value"] is not None
    assert found["self_bleu", "one", None]["low"] is not None and found["self_bleu", "other", None]["low"] is None
    assert ("distinct_2", "other", "b") not in found
