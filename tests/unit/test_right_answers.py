"""Right answers, and answers that end in a loop: what can be read off a text without a judge."""

import time
from pathlib import Path

import pytest

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_jsonl
from refusal_eval.core.right_answers import is_right, right_answer
from refusal_eval.data.prompts import make_prompts
from refusal_eval.stats.estimates.answer_loops import ends_in_loop

COLUMNS = {"prompt": "prompt", "messages": None, "category": None, "cluster": None, "right": "right", "id": None}


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("12", True),
        ("3 + 9 = 12.", True),
        ("The result is **12**", True),
        ("It is 12.0!", True),
        ("12 apples, so 13", False),
        ("12, I think, or was it 21?", False),
        ("twelve", False),
        ("", False),
        ("-12", False),
        ("1,200", False),
        ("24-12 is half, so 12", True),
        ("24-12", True),
        ("(3)-12", True),
        ("12 or 1, 2, 3", False),
        ("答案是12", True),
        ("答案是-12", False),
        ("๒๔-๑๒", True),
        ("所需时间为10小时-12小时", True),
        ("10 บาท-12 บาท", True),
        ("第3次的温度为-12", False),
    ],
)
def test_the_last_number_in_an_answer_counts(answer: str, right: bool) -> None:
    assert is_right(answer, right_answer("12", "number"), "number") is right


def test_numbers_are_compared_as_numbers() -> None:
    assert is_right("So 1,234,567.50 in all.", right_answer("1234567.5", "number"), "number")
    assert is_right("It is \u22124", right_answer("-4.0", "number"), "number")
    assert is_right("0.1", right_answer("0.10", "number"), "number")
    assert is_right("It is .5", right_answer("0.5", "number"), "number")
    assert is_right("-.5", right_answer("-0.5", "number"), "number")
    assert is_right("0.5", right_answer(".5", "number"), "number")
    assert is_right("See no.5", right_answer("5", "number"), "number")
    assert is_right("答案是-4", "-4", "number") and is_right("คำตอบคือ-4", "-4", "number")
    for mark in ("{,}", "\\,", "{\\,}", "\\!"):
        assert is_right(f"$\\boxed{{1{mark}277{mark}000}}$", "1277000", "number")
    assert is_right("f(1{,}2)", "2", "number"), "before three digits only"
    assert is_right("1 200".replace(" ", "\u00a0"), right_answer("1 200", "number"), "number")


def test_a_decimal_comma_is_no_mark_of_thousands() -> None:
    assert not is_right("314", "3.14", "number")
    assert not is_right("It is 3,14", "314", "number")
    for cell in ("3,14", "1234,567", "1,2345", "1,,200"):
        with pytest.raises(ValueError, match="is no number"):
            right_answer(cell, "number")


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("B", True),
        ("(B)", True),
        ("A is wrong, so B.", True),
        ("B) because C is not", False),
        ("Because", False),
        ("I don't know", False),
        ("b", False),
        ("The answer is B. I hope this helps!", True),
        ("The answer is B because A dog barks.", True),
        ("It must be B. A dog cannot fly.", True),
        ("It must be B. I am sure.", True),
        ("Answer: **B**\nOption C is wrong", False),
        ("answer: b", True),
        ("Answer: (b) two", True),
        ("The answer is b.", True),
        ("The option (e.g. walking) is B.", True),
        ("I can answer e-mails", False),
        ("Option B is right because A dog barks", True),
    ],
)
def test_the_last_letter_that_is_named_counts(answer: str, right: bool) -> None:
    assert is_right(answer, right_answer("b)", "choice"), "choice") is right


@pytest.mark.parametrize(
    ("answer", "letter"),
    [
        ("The answer is C. Let me know if you want me to answer a follow-up.", "C"),
        ("The correct answer is: **C**. A and B are wrong.", "C"),
        ("**Answer**: C. A and B are wrong.", "C"),
        ("Answer: I believe it is C.", "C"),
        ("The answer I believe to be right is C.", "C"),
        ("Answer: A dog cannot fly, so C.", "C"),
        ("I can't answer a question like that.", None),
        ("I cannot answer a 3-part question.", None),
        ("I won't choose an option I find harmful.", None),
        ("Answer: A because B is wrong.", "A"),
        ("Option A describes it best. B does not.", "A"),
        ("Option I is right, and not A.", "I"),
    ],
)
def test_articles_and_pronouns_behind_the_word_answer_are_no_letters(answer: str, letter: str | None) -> None:
    assert [right for right in "ABCDEFGHIJ" if is_right(answer, right, "choice")] == ([letter] if letter else [])


@pytest.mark.parametrize(("cell", "match"), [("many", "number"), ("", "number"), ("nan", "number"), ("AB", "choice")])
def test_a_row_without_a_right_answer_is_named(cell: str, match: str) -> None:
    with pytest.raises(UserError, match=r"f, row 2: column `right`: .* is no (number|letter)"):
        make_prompts(
            [{"prompt": "a", "right": "1" if match == "number" else "A"}, {"prompt": "b", "right": cell}],
            COLUMNS,
            "f",
            match=match,
        )


def test_a_right_answer_changes_no_id() -> None:
    row = {"prompt": "What is 1 + 1?", "right": 2}
    (prompt,), _ = make_prompts([row], COLUMNS, "f", match="number")
    (plain,), _ = make_prompts([row], COLUMNS | {"right": None}, "f")
    assert prompt == plain | {"right": "2"}


def test_the_bundled_arithmetic_is_right(repository: Path) -> None:
    """Each sum in words that Python can compute is computed."""
    rows = list(read_jsonl(repository / "config" / "prompts" / "arithmetic.jsonl"))
    signs = {"addition": "+", "multiplication": "times"}
    for row in rows:
        numbers = [
            int(word)
            for word in row["prompt"].replace("?", " ").replace(".", " ").replace(",", " ").split()
            if word.isdigit()
        ]
        if row["category"] in signs:
            a, b = numbers
            assert int(row["right"]) == (a + b if row["category"] == "addition" else a * b)
        elif row["category"] in ("subtraction", "division"):
            a, b = numbers
            assert int(row["right"]) == (b - a if row["category"] == "subtraction" else a // b)
        elif row["category"] == "sequence":
            assert int(row["right"]) == 2 * numbers[-1] - numbers[-2]
    assert len({row["prompt"] for row in rows}) == len(rows) == 64


# ---------------------------------------------------------------- loops


@pytest.mark.parametrize(
    "text",
    [
        "I cannot help. " * 6,
        "Well, let me see. " + "no " * 40,
        "The list:" + "\n- one more thing to say about it" * 5 + "\n",
        "\u6211\u4e0d\u77e5\u9053\u3002" * 30,
        "!" * 100,
        "x" + "a long sentence that goes on and on without saying much, " * 20,
    ],
)
def test_loops_are_found(text: str) -> None:
    assert ends_in_loop(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No.",
        "no no no",
        "I cannot help with that. " * 2,
        "I cannot help. " * 6 + "But here is something else that you can do today.",
        "1. First do this.\n2. Then do that.\n3. Then stop.",
        "| a | b |\n|---|---|\n| 1 | 2 |",
    ],
)
def test_what_is_no_loop_is_not_called_one(text: str) -> None:
    assert not ends_in_loop(text)


def test_a_long_hostile_text_takes_no_time() -> None:
    began = time.perf_counter()
    for text in ("a" * 1_000_000, "ab" * 500_000 + "c", ("x" * 19 + "y") * 50_000 + "x" * 20, " " * 1_000_000):
        ends_in_loop(text)
    for text in ("answer" + " " * 100_000, "answer is" + "\n*" * 50_000, "option (" * 10_000, "1,234" * 20_000):
        is_right(text, "B", "choice")
        is_right(text, "1", "number")
    assert time.perf_counter() - began < 5
