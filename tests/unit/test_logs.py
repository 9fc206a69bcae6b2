"""What a script's log shows of an error: what the user can mend in one line, everything else with its traceback."""

import errno
import logging
import os
import sys
from types import SimpleNamespace

import pytest

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import BadFile
from refusal_eval.core.logs import FORMAT, ConsoleFormatter, start_log
from refusal_eval.core.states import ANSWER_STATES, state_counts


@pytest.fixture
def log(tmp_path, monkeypatch):
    """Start a script's log, as a rule would, and put everything back behind it."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    path = tmp_path / "logs" / "rule.log"
    start_log(SimpleNamespace(log=[str(path)], rule="rule", config={}))
    yield path
    for handler in root.handlers:
        handler.close()
    root.handlers[:], root.level = before


def thrown(error):
    """Let an error reach the end of the script."""
    try:
        raise error
    except Exception:
        sys.excepthook(*sys.exc_info())


@pytest.mark.parametrize("kind", [UserError, BadFile])
def test_what_the_user_can_mend_is_one_line(log, capsys, kind):
    thrown(kind("prompts.jsonl, line 3: not valid JSON"))
    assert log.read_text().splitlines()[0].endswith("ERROR prompts.jsonl, line 3: not valid JSON")
    assert "Traceback" not in log.read_text()


def test_everything_else_comes_with_its_traceback(log):
    thrown(KeyError("prompt_id"))
    assert "uncaught error" in log.read_text() and "Traceback" in log.read_text()


@pytest.mark.parametrize(("file", "named"), [(None, ""), ("tables/a.csv", "tables/a.csv: ")])
def test_a_full_disk_is_one_line_that_says_what_to_do(log, file, named):
    thrown(OSError(errno.ENOSPC, "No space left on device", file))
    assert log.read_text().splitlines()[0].endswith(f"ERROR {named}No space left on device; free space and run again")
    assert "Traceback" not in log.read_text()


def test_half_of_a_surrogate_pair_can_be_logged(log, capsys, monkeypatch):
    root = logging.getLogger()  # without pytest's own handlers, whose reports cannot hold it
    ours = [handler for handler in root.handlers if type(handler) in (logging.FileHandler, logging.StreamHandler)]
    monkeypatch.setattr(root, "handlers", ours)
    logging.getLogger("refusal_eval.rule").info("a model said \ud83d")
    assert "a model said" in log.read_text() and "Logging error" not in capsys.readouterr().err


def test_what_a_model_or_a_server_wrote_steers_no_terminal_and_hides_nothing(log):
    said = "\x1b[1;36m(EngineCore pid=7)\x1b[0;0m it said \x1b[2J\x9b1A\x08 \u202eabc\u2066\x00 \u0634\u200c\u0627"
    shown = "(EngineCore pid=7) it said [U+001B][2J[U+009B]1A[U+0008] [U+202E]abc[U+2066][U+0000] \u0634\u200c\u0627"
    logging.getLogger("refusal_eval.rule").warning("%s", said)
    thrown(KeyError("a\tb"))
    thrown(UserError(said))
    lines = log.read_text().splitlines()
    assert lines[0].endswith("WARNING " + shown) and lines[-1].endswith("ERROR " + shown)
    assert "Traceback (most recent call last):" in lines  # lines stay lines


@pytest.mark.parametrize("name", ["httpx", "httpx2", "httpcore2.connection"])
def test_libraries_that_log_every_request_are_quiet(log, name):
    logging.getLogger(name).info("HTTP Request: GET")
    logging.getLogger(name).warning("retrying")
    assert "GET" not in log.read_text() and "retrying" in log.read_text()


def test_states_are_reported_in_their_own_order_and_only_those_that_occur():
    rows = [{"state": state} for state in ("empty", "complete", "complete")]
    assert state_counts(rows, ANSWER_STATES) == "2 complete, 1 empty"
    assert state_counts([], ANSWER_STATES) == "none"


@pytest.mark.parametrize(
    ("number", "todo"),
    [
        *[(number, "make it readable and writable") for number in (errno.EROFS, errno.EACCES, errno.EPERM)],
        *[(number, "a file is where a folder should be: move it away") for number in (errno.ENOTDIR, errno.EEXIST)],
        (errno.EISDIR, "a folder is where a file should be: move it away"),
    ],
)
def test_what_cannot_be_written_is_one_line_that_says_what_to_do(log, number, todo):
    thrown(OSError(number, os.strerror(number), "tables/.a.csv.ab3_xy9z.tmp"))
    line = log.read_text().splitlines()[0]
    assert line.endswith(f"ERROR tables: {os.strerror(number)}; {todo} and run again")
    assert "Traceback" not in log.read_text()


def test_the_console_shortens_what_is_long_and_no_warning() -> None:
    def shown(level: int) -> str:
        record = logging.LogRecord("x", level, "file", 1, "starting the engine: %s", ("--option " * 100,), None)
        return ConsoleFormatter(FORMAT).format(record)

    assert len(shown(logging.INFO)) == 200 and shown(logging.INFO).endswith(" ... (the log has all of it)")
    assert len(shown(logging.WARNING)) > 800
