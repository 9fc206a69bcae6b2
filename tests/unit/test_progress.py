"""Progress: what the log says of an engine load."""

import logging

from refusal_eval.engines.progress import Progress, cells_line


def counters(generated: float) -> dict[str, float]:
    return {"generated_tokens": generated, "prefix_cache_queries": 200.0, "prefix_cache_hits": 50.0}


def test_totals_speed_cache_and_time_left_are_said(caplog, monkeypatch):
    now = 1000.0
    monkeypatch.setattr("refusal_eval.engines.progress.time.monotonic", lambda: now)
    progress = Progress(["m/a"] * 4 + ["m/b"] * 4)
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            progress.done("m/a", tokens=10)
        progress.engine_counters(counters(generated=30))
        now += 36.0
        progress.log_now()
    line, cells = caplog.messages
    assert line.startswith("3 of 8 requests, ")
    assert "tokens/s" in line and "25 % of prompt tokens from the cache" in line
    assert line.endswith(", about 0:01:00 left")
    assert cells == "by cell: m/a 3/4, 0 of 2 complete"


def test_the_time_left_is_not_foreseen_from_the_first_answers(caplog, monkeypatch):
    now = 1000.0
    monkeypatch.setattr("refusal_eval.engines.progress.time.monotonic", lambda: now)
    progress = Progress(["m/a"] * 100)
    seen = []
    with caplog.at_level(logging.INFO):
        for later, answers in ((1029.0, 10), (1031.0, 0), (1700.0, 0)):
            now = later
            for _ in range(answers):
                progress.done("m/a")
            caplog.clear()
            progress.log_now()
            seen.append(caplog.messages[0])
        slow = Progress(["m/a"] * 100)
        slow.done("m/a")
        for later in (599.0, 601.0):
            now = 1700.0 + later
            caplog.clear()
            slow.log_now()
            seen.append(caplog.messages[0])
    unknown = [line.endswith("time left unknown") for line in seen]
    assert unknown == [True, False, False, True, False]


def test_tokens_of_long_answers_count_and_are_said_before_any_answer_is_whole(caplog, monkeypatch):
    now = 1000.0
    monkeypatch.setattr("refusal_eval.engines.progress.time.monotonic", lambda: now)
    progress = Progress(["m/a"] * 8)
    with caplog.at_level(logging.INFO):
        now = 1029.0
        progress.log_if_due()
        assert not caplog.messages
        now = 1031.0
        progress.engine_counters(counters(generated=3100.0))
        progress.log_if_due()
        progress.log_if_due()
    (line,) = caplog.messages
    assert line.startswith("0 of 8 requests, 100 tokens/s, ") and line.endswith("time left unknown")


def test_a_complete_cell_is_said_at_once_and_turns_of_a_dialogue_that_ended_early_are_no_longer_expected(caplog):
    progress = Progress(["m/a", *["m/b"] * 5])
    with caplog.at_level(logging.INFO):
        progress.done("m/a")
        assert caplog.messages == ["m/a: all 1 requests done"]
        progress.done("m/b")
        progress.drop("m/b", 3)
        progress.engine_counters({})
        progress.close()
    assert caplog.messages[-2] == "2 of 3 requests, time left unknown"  # without a speed where nobody counts tokens


def test_no_bar_is_drawn_where_there_is_no_terminal(capsys):
    progress = Progress(["m/a"] * 3)
    progress.done("m/a")
    progress.engine_counters(counters(generated=30))
    progress.drop("m/a", 1)
    progress.done("m/a")
    progress.close()
    assert capsys.readouterr().err == ""


def test_many_cells_at_work_are_not_all_listed():
    todo = {f"m/{n}": 2 for n in range(20)}
    line = cells_line(dict.fromkeys(list(todo)[:12], 1) | {"m/19": 2}, todo)
    assert line.count("1/2") == 8 and "4 more at work" in line and line.endswith("1 of 20 complete")
