"""What answers and verdicts cost, out of the tokens in their files."""

from pathlib import Path
from typing import Any

import pytest

from refusal_eval.core.files import write_jsonl
from refusal_eval.features.hosted.measure_spending import measure

pytestmark = pytest.mark.feature("hosted")
PRICE = {"input": 2.0, "cached": 1.0, "output": 10.0, "date": "2026-11-01", "currency": "EUR"}
SHARED = {"input": 1000, "cached": 500, "output": 100}  # 1,000 + 500 + 1,000 millionths
OWN = {"input": 500, "cached": 0, "output": 200}  # 1,000 + 2,000 millionths
ASKED: dict[str, Any] = {"models": ["m"], "splits": ["s"], "samples": 2}


def answer(key: str | None, state: str = "complete", usage: dict[str, int] | None = None) -> dict[str, Any]:
    row = {"prompt_id": f"p{key}", "key": key, "state": state}
    return row | ({} if usage is None else {"usage": usage})


def verdict(key: str | None, state: str = "judged", **billed: dict[str, int]) -> dict[str, Any]:
    return {"prompt_id": "p", "key": key, "state": state} | ({"billed": billed} if billed else {})


def cost(folder: Path, rows: list[dict[str, Any]], of_judge: bool) -> dict[str, Any]:
    path = str(folder / "rows.jsonl")
    write_jsonl(path, rows)
    files = {"answers": [] if of_judge else [path], "verdicts": [path] if of_judge else []}
    prices = {"prices": {} if of_judge else {"m": PRICE}, "judge_prices": {"j": PRICE} if of_judge else {}}
    (found,) = measure(files, prices | ASKED)["estimates"]
    return dict(found)


def test_a_response_that_two_rows_share_is_paid_once(tmp_path: Path) -> None:
    rows = [answer("a", usage=SHARED), answer("a", usage=SHARED), answer("b", usage=OWN)]
    rows += [answer("c", "blocked"), answer(None, "blocked")]
    found = cost(tmp_path, rows, of_judge=False)
    assert found["value"] == pytest.approx(1000 * (2500 + 3000) / 1e6 / 3)
    assert found["method"] == "prices of 2026-11-01; 1 responses without a bill are not counted"
    assert (found["estimand"], found["parameter"]) == ("cost_per_1000_answers", "EUR")


def test_verdicts_cost_what_all_votes_and_tries_behind_them_cost(tmp_path: Path) -> None:
    rows = [verdict("a", a=SHARED, again=OWN), verdict("a", a=SHARED, again=OWN), verdict("b", "unparsable", b=OWN)]
    rows += [verdict(None)]  # that another judge settled
    found = cost(tmp_path, rows, of_judge=True)
    assert found["value"] == pytest.approx(1000 * (2500 + 3000 + 3000) / 1e6 / 3)
    assert (found["estimand"], found["judge"], found["model"]) == ("cost_per_1000_verdicts", "j", "m")
    assert found["method"] == "prices of 2026-11-01"
    assert cost(tmp_path, [verdict("a", "judge_refused")], of_judge=True)["value"] is None
