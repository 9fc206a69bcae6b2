"""What orders of words find, by hand and by all permutations; and which words are to be found."""

import itertools
import math
import random

import numpy as np
import pytest

from refusal_eval.features.attributions.attribution_estimates import DIFFERENCES, ORDERS, attribution_estimates, ranked
from refusal_eval.features.attributions.attribution_values import csv_of, log_of_sum, valued
from refusal_eval.features.attributions.attributions_figure import lines_of, pieces_of
from refusal_eval.features.attributions.focus_words import is_focus
from refusal_eval.features.attributions.left_out import asked_prompts
from refusal_eval.features.attributions.ranking import hits, mean_ranks
from refusal_eval.features.attributions.word_rules import WORD_RULES, frequencies, unit_texts
from refusal_eval.plots.base import text_width

pytestmark = pytest.mark.feature("attributions")


def over_permutations(values, wanted):
    """Return the four numbers as means over all orders that the values allow."""
    found = []
    for order in itertools.permutations(range(len(values))):
        if any(values[a] < values[b] for a, b in itertools.pairwise(order)):
            continue
        seen = [wanted[place] for place in order]
        rank = seen.index(True) + 1 if True in seen else math.inf
        found.append([seen[0], any(seen[:3]), 1 / rank, sum(seen[: sum(wanted)]) / max(sum(wanted), 1)])
    return np.mean(np.array(found, dtype=float), axis=0).tolist()


@pytest.mark.parametrize("seed", range(40))
def test_ties_are_broken_in_all_ways_at_once(seed):
    draw = random.Random(seed)
    size = draw.randint(1, 6)
    values = [float(draw.randint(0, 3)) for _ in range(size)]
    wanted = [draw.random() < 0.4 for _ in range(size)]
    assert list(hits(values, wanted)) == pytest.approx(over_permutations(values, wanted), abs=1e-12)


def test_numbers_of_one_prompt_by_hand():
    # Words in the order of their values: no, yes, no, yes, no.
    found = hits([3.0, 5.0, 1.0, 4.0, 2.0], [False, False, False, True, True])
    assert found == (0.0, 1.0, 0.5, 0.5)
    assert mean_ranks([3.0, 5.0, 3.0, 4.0]) == [3.5, 1.0, 3.5, 2.0]


@pytest.mark.parametrize(("words", "focus"), [(9, 1), (12, 2), (4, 3), (30, 5)])
def test_a_random_word_in_closed_form(words, focus):
    found = hits([0.0] * words, [True] * focus + [False] * (words - focus))
    assert found.top1 == pytest.approx(focus / words, abs=1e-12)
    assert found.r_precision == pytest.approx(focus / words, abs=1e-12)
    none_of_three = math.prod((words - focus - k) / (words - k) for k in range(3))
    assert found.top3 == pytest.approx(1 - max(0.0, none_of_three), abs=1e-12)
    # P(first one at rank k) = (ways to choose the others behind it) / (ways to choose all)
    ways = math.comb(words, focus)
    reciprocal = sum(math.comb(words - k, focus - 1) / ways / k for k in range(1, words + 1))
    assert found.reciprocal_rank == pytest.approx(reciprocal, abs=1e-12)


@pytest.mark.parametrize(
    ("word", "focus", "exact", "substring"),
    [
        ("Kill", "kill", True, True),
        ("pills", "sleeping pills", True, True),
        ("sleep", "sleeping pills", False, True),
        ("I", "kill", False, True),
        ("killing", "kill", False, False),
        ("\uff4bill", "kill", True, True),
        ("\u6740", "\u6740\u6b7b", True, True),
    ],
)
def test_which_words_are_to_be_found(word, focus, exact, substring):
    assert (is_focus(word, focus, "exact"), is_focus(word, focus, "substring")) == (exact, substring)


def test_orders_that_look_at_no_model():
    prompts = [unit_texts(text.split()) for text in ("How do I kill processes", "What kills a Zebra", "How do I swim")]
    known = frequencies(prompts)
    first = {name: [value == max(values) for value in values]
             for name, rule in WORD_RULES.items() for values in [rule(prompts[0], known)]}  # fmt: skip
    assert first["random word"] == [True] * 5
    assert first["first content word"] == [False, False, False, True, False], "how, do and I name nothing"
    assert first["longest word"] == [False, False, False, False, True]
    assert first["rarest word"] == [False, False, False, True, True], "each is in this prompt alone"
    alone = WORD_RULES["first content word"](unit_texts(["What", "is", "it"]), known)
    assert alone[0] > alone[1] > alone[2], "where no word names anything, in their order"
    apostrophe = WORD_RULES["first content word"](unit_texts(["What\u2019s", "up", "doc"]), known)
    assert apostrophe.index(max(apostrophe)) == 2


def prompt_of(text, focus="kill", name="p", cluster=None, category=None):
    source = {"file": "f", "row": 1, "kept": {"focus": focus}}
    messages = [{"role": "user", "content": text}]
    return {"id": name, "messages": messages, "cluster": cluster or name, "category": category, "source": source}


def test_a_prompt_is_asked_whole_and_without_each_word():
    found = asked_prompts(prompt_of("Can I kill time?"), "word")
    assert [one.messages[-1]["content"] for one in found] == [
        "Can I kill time?", "I kill time?", "Can kill time?", "Can I time?", "Can I kill?"
    ]  # fmt: skip
    assert asked_prompts(prompt_of("Kill!"), "word") == []
    talk = prompt_of("Can I?") | {
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Can I?"}]
    }
    assert [[one["content"] for one in asked.messages] for asked in asked_prompts(talk, "word")] == [
        ["Be brief.", "Can I?"], ["Be brief.", "I?"], ["Be brief.", "Can?"]
    ]  # fmt: skip


def test_values_are_differences_of_the_score_and_lack_where_one_is_not_known():
    scores = {"p": -1.0, "p.0-3": -1.5, "p.4-5": -1.0, "p.6-10": -4.25, "p.11-15": -0.5}
    row = valued(prompt_of("Can I kill time?"), scores, "word", "focus")
    assert [(one["word"], one["value"], one["rank"], one["exact"]) for one in row["units"]] == [
        ("Can", 0.5, 2, False), ("I", 0.0, 3, False), ("kill", 3.25, 1, True), ("time", -0.5, 4, False)
    ]  # fmt: skip
    lacking = valued(prompt_of("Can I kill time?"), scores | {"p.4-5": None}, "word", "focus")
    assert [one["value"] for one in lacking["units"]] == [0.5, None, 3.25, -0.5]
    assert {one["rank"] for one in lacking["units"]} == {None}
    assert log_of_sum([0.25, 0.125]) == pytest.approx(math.log(0.375)) and log_of_sum([0.0]) is None


def test_a_word_that_a_spreadsheet_would_compute_is_escaped():
    row = {"prompt_id": "p", "units": [{"word": "=1", "begin": 0, "end": 2, "value": 1.0, "rank": 1.0,
                                        "exact": None, "substring": None}]}  # fmt: skip
    assert list(csv_of([row]))[1] == "p,'=1,0,2,1.0,1.0,,\n"


def cell_of(number, seed):
    """Return prompts of some clusters, with values that find the focus more often than chance."""
    draw, prompts, rows = random.Random(seed), {}, []
    for place in range(number):
        words = [draw.choice(["alpha", "be", "gamma", "delta", "eps"]) + str(draw.randint(0, 30)) for _ in range(7)]
        focus = draw.choice(words)
        prompt = prompt_of(" ".join(words), focus, f"p{place}", f"c{place // 2}", draw.choice("ab"))
        scores = {f"p{place}": 0.0}
        for span, _ in asked_prompts(prompt, "word")[1:]:
            word = " ".join(words)[span.begin : span.end]
            scores[f"p{place}.{span.begin}-{span.end}"] = -draw.random() - (word == focus) * draw.choice([0, 2])
        prompts[prompt["id"]] = prompt
        rows.append(valued(prompt, scores, "word", "focus"))
    return rows, prompts


def test_means_and_intervals_are_those_of_a_bootstrap_of_ones_own():
    """Whole clusters are drawn, all orders on the same draw, the best order chosen again in each."""
    rows, prompts = cell_of(80, 3)
    made = attribution_estimates(ranked(rows, prompts), "w", 0.95, {"model": "m", "split": "s"})
    found = {(one.estimand, one.category, one.parameter): one for one in made}
    values = np.zeros((80, len(ORDERS)))
    known = frequencies([unit_texts(one["word"] for one in row["units"]) for row in rows])
    for place, row in enumerate(rows):
        units = unit_texts(one["word"] for one in row["units"])
        orders = [[one["value"] for one in row["units"]], *(rule(units, known) for rule in WORD_RULES.values())]
        values[place] = [over_permutations_of_top1(one, [u["exact"] for u in row["units"]]) for one in orders]
    for order, name in enumerate(ORDERS):
        own = found["attribution_top1", None, f"w, exact, {name}"]
        assert own.value == pytest.approx(values[:, order].mean(), abs=1e-12)
        assert (own.n_prompts, own.n_clusters) == (80, 40)
    rng = np.random.default_rng(11)
    clusters = np.arange(80) // 2
    by_cluster = np.array([values[clusters == c].sum(axis=0) for c in range(40)]) / 2
    draws = by_cluster[rng.integers(40, size=(40000, 40))].mean(axis=1)
    best = values[:, 1:].mean(axis=0)
    (difference,) = [one for key, one in found.items() if key[:2] == (DIFFERENCES[0], None) and "exact" in str(key[2])]
    assert difference.value == pytest.approx(values[:, 0].mean() - best.max(), abs=1e-12)
    assert str(difference.parameter).endswith(ORDERS[1 + int(best.argmax())])
    low, high = np.quantile(draws[:, 0] - draws[:, 1:].max(axis=1), [0.025, 0.975])
    assert (difference.low, difference.high) == pytest.approx((low, high), abs=0.02)
    assert difference.low < low + 0.004 and difference.high > high - 0.004, "expanded, as for few clusters"
    own = found["attribution_top1", None, "w, exact, attribution"]
    low, high = np.quantile(draws[:, 0], [0.025, 0.975])
    assert (own.low, own.high) == pytest.approx((low, high), abs=0.02)


def over_permutations_of_top1(values, wanted):
    top = [want for value, want in zip(values, wanted, strict=True) if value == max(values)]
    return sum(top) / len(top)


def test_a_word_found_in_every_prompt_has_an_exact_interval():
    prompts = {f"p{n}": prompt_of("Can I kill time?", name=f"p{n}") for n in range(10)}
    of_one = {"": 0.0, ".0-3": 0.0, ".4-5": 0.0, ".6-10": -3.0, ".11-15": 0.0}
    scores = {f"{name}{end}": value for name in prompts for end, value in of_one.items()}
    rows = [valued(prompt, scores, "word", "focus") for prompt in prompts.values()]
    found = list(attribution_estimates(ranked(rows, prompts), "w", 0.95, {"model": "m", "split": "s"}))
    (own,) = [one for one in found if (one.estimand, one.parameter) == ("attribution_top1", "w, exact, attribution")]
    assert own.value == 1.0
    assert own.low == pytest.approx(0.025 ** (1 / 10)), "Clopper-Pearson: the low end p has p^10 = 0.025"


def test_lines_of_a_figure_hold_the_whole_text_and_fit():
    text = "Could you kill the process, or\nshoot (quickly!) a film?"
    prompt = prompt_of(text)
    scores = {"p": 0.0} | {f"p.{s.begin}-{s.end}": 0.0 for s, _ in asked_prompts(prompt, "word")[1:]}
    units = valued(prompt, scores, "word", "focus")["units"]
    assert "".join(piece.text for piece in pieces_of(text, units)) == text
    for width in (40.0, 90.0, 400.0):
        lines = lines_of(text, units, width)
        assert " ".join("".join(piece.text for piece in line).strip() for line in lines).split() == text.split()
        assert all(sum(text_width(piece.text) for piece in line) <= width for line in lines)
    han = "\u6211\u80fd\u6740\u6b7b\u65f6\u95f4\u5417"
    characters = [{"begin": place, "end": place + 1} for place in range(len(han))]
    lines = lines_of(han, characters, 3.5 * text_width(han[0]))
    assert ["".join(piece.text for piece in line) for line in lines] == [han[:3], han[3:6], han[6:]]
