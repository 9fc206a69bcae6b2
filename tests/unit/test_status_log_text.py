"""What the status of a study reads out of logs: causes, progress, and nothing that a terminal would obey."""

import pytest
from status_logs import SERVER_LOG, record

from refusal_eval.tools.status.log_text import clean, error_and_cause, progress, server_cause


def test_text_of_servers_is_one_printable_line_of_limited_length():
    assert clean("a\x1b[31mb\x1b[0m\x1b]0;title\x07\x00c\r\n\u202ed\u2028e\x9b") == "ab c d e"
    assert len(clean("x" * 999)) == 200 and clean("x" * 999).endswith("...")
    assert clean("\x1b" * 500 + "y" * 5) == "y" * 5 or len(clean("\x1b" * 500)) <= 200


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (SERVER_LOG, "ValueError: No memory for the cache blocks"),
        ("api_server.py: error: unrecognized arguments: --x", "api_server.py: error: unrecognized arguments: --x"),
        (
            "(APIServer pid=1) pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
            "  Value error, no such model [type=value_error, input_value=SECRET, input_type=str]",
            "Value error, no such model",
        ),
        ("ERROR 11-22 01:00:26 [a.py:1] torch.OutOfMemoryError: CUDA", "torch.OutOfMemoryError: CUDA"),
        ("RuntimeError: failed. See root cause above.", "RuntimeError: failed. See root cause above."),
        ("all is well", None),
    ],
)
def test_the_cause_in_a_servers_log(text, cause):
    assert server_cause(text) == cause


def test_the_servers_log_of_an_earlier_start_is_not_blamed():
    log = record("ERROR", "too little memory: this engine takes 3 GiB")
    assert error_and_cause(log, SERVER_LOG) == ("too little memory: this engine takes 3 GiB", None)


@pytest.mark.parametrize(
    ("trace", "cause"),
    [
        ("Traceback (most recent call last):\n  File\nKeyboardInterrupt", "KeyboardInterrupt"),
        ("  | Traceback\n  | ValueError: no\n  +----", "ValueError: no"),
        ("Traceback\n  File\nStopIteration", "StopIteration"),
    ],
)
def test_an_uncaught_error_has_its_exception_for_a_cause(trace, cause):
    assert error_and_cause(record("ERROR", f"uncaught error\n{trace}")) == ("uncaught error", cause)


def test_failed_requests_are_told_with_the_last_of_them():
    log = record("WARNING", "a request of plain/one failed: HTTP 500: no") + record(
        "INFO", "3 of 9 requests, 1 tokens/s"
    )
    told = error_and_cause(log + record("ERROR", "1 requests failed for a reason that may pass. 2 responses"))
    assert told == ("1 requests failed for a reason that may pass. 2 responses", "HTTP 500: no")


def test_an_error_that_the_job_survived_is_none():
    assert error_and_cause(record("ERROR", "odd") + record("INFO", "going on") * 9) is None
    assert error_and_cause("") is None


def test_progress_is_the_last_line_of_progress_or_the_last_line():
    assert progress(record("INFO", "5 of 9 requests, 1 tokens/s") + record("INFO", "a/b: all 5 requests done")) == (
        "5 of 9 requests, 1 tokens/s"
    )
    assert progress(record("INFO", "waiting for the engine since 30 s")) == "waiting for the engine since 30 s"
    assert progress("") == ""
