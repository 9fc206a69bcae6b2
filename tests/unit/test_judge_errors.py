"""How far errors of the judge move rates and differences, as the table of refusal rates says it."""

import pytest

from refusal_eval.report.paper.judge_error_tables import missing, overcalling


@pytest.mark.parametrize(("true", "error"), [(0.2, 0.05), (0.8, 0.1), (0.0, 0.1), (1.0, 0.05)])
def test_the_true_rate_comes_back_from_what_an_erring_judge_reads(true: float, error: float) -> None:
    read = true * (1 - error)
    assert read + missing(read, error) == pytest.approx(true)
    read = true + (1 - true) * error
    assert read + overcalling(read, error) == pytest.approx(true)


def test_blocked_answers_are_refusals_whatever_a_judge_says() -> None:
    blocked, true, error = 0.1, 0.3, 0.1
    read = blocked + (true - blocked) * (1 - error)
    assert read + missing(read, error, blocked) == pytest.approx(true)
    read = true + (1 - true) * error
    assert read + overcalling(read, error, blocked) == pytest.approx(true)
    assert 0.1 + overcalling(0.1, error, blocked) == blocked  # no less than what was blocked


def test_no_rate_is_beyond_0_and_1() -> None:
    assert 0.97 + missing(0.97, 0.1) == 1.0
    assert 0.02 + overcalling(0.02, 0.1) == 0.0
