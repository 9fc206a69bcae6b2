"""What a log says: its last error, what is likely behind it, how far a job has come.

The text of servers is not trusted: whatever leaves this module is one line, printable, and of limited length.
"""

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

LIMIT = 200  # characters of one message
TAIL_BYTES = 64 * 1024
LAST_RECORDS = 5  # an error further up was not the end of the job

# `refusal_eval.core.logs.FORMAT`; other lines continue the record above them.
RECORD = re.compile(r"\d\d:\d\d:\d\d (DEBUG|INFO|WARNING|ERROR|CRITICAL) (.*)")
ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b.?")
PROGRESS = re.compile(r"\d+ of \d+ requests, ")
STARTS = "starting the engine: "
AT_WORK = re.compile(rf"{STARTS}|the engine is healthy|{PROGRESS.pattern}")
SERVER_LINES = re.compile(r"\.?\s*(?:Its cause: .*)?Its last lines, from .*")
UNCAUGHT = "uncaught error"  # `refusal_eval.core.logs`; a traceback follows
FAILED_REQUEST = re.compile(r"a request(?: of \S+)? failed: (.*)")

# What a server's log puts before its messages: `(EngineCore pid=71) ERROR 11-22 01:00:24 [core.py:718] `.
SERVER_PREFIX = re.compile(r"^(?:\([^)]*\) *)?(?:([A-Z]+) +\d\d-\d\d [\d:]+ +(?:\[[^\]]*\] ?)?)?")
HARMLESS_LEVELS = ("DEBUG", "INFO", "WARNING")
EXCEPTION = r"(?:\w+\.)*[A-Z]\w*(?:Error|Exception|Interrupt)\b(?:: .*)?$"
CAUSE = re.compile(
    rf"{EXCEPTION}|Value error, .*|\S+: error: .*|.*\bout of memory\b.*|.*No space left on device.*"
    r"|Killed\b.*|Segmentation fault.*|Bus error.*"
)
CONSEQUENCES = ("See root cause above", "validation error", "EngineDeadError")


def clean(text: str, limit: int = LIMIT) -> str:
    """Return text as one printable line without escape sequences, cut after `limit` characters."""
    # Categories C*: controls, formats (such as those that turn the direction of writing), surrogates, unassigned.
    shown = "".join(" " if unicodedata.category(c)[0] == "C" else c for c in ESCAPES.sub("", text[: 20 * limit]))
    line = " ".join(shown.split())
    return line if len(line) <= limit else line[: limit - 3] + "..."


def tail(path: str | Path) -> str:
    """Return the whole lines at the end of a file; nothing when it cannot be read."""
    try:
        with open(path, "rb") as handle:
            size = handle.seek(0, 2)
            handle.seek(max(0, size - TAIL_BYTES))
            data = handle.read(TAIL_BYTES)
    except OSError:
        return ""
    if size > TAIL_BYTES:
        data = data.partition(b"\n")[2]
    return data.decode("utf-8", "replace")


def records(text: str) -> list[tuple[str, list[str]]]:
    """Return the records of a job's log: the level of each, and its message line by line."""
    found: list[tuple[str, list[str]]] = []
    for line in text.split("\n"):
        if match := RECORD.match(line):
            found.append((match[1], [match[2]]))
        elif found and line.strip():
            found[-1][1].append(line)
    return found


def error_and_cause(text: str, server_text: str = "") -> tuple[str, str | None] | None:
    """Return the error at the end of a job's log, and the line that gives its cause; None without an error.

    Args:
        text: the end of the job's log.
        server_text: the end of its server's log; read only where the error says that the server is to blame, since it
            may be that of an earlier start.
    """
    every = records(text)
    lines = next((lines for level, lines in every[: -LAST_RECORDS - 1 : -1] if level in ("ERROR", "CRITICAL")), None)
    if lines is None:
        return None
    cause: str | None = None
    if SERVER_LINES.search(lines[0]):
        cause = server_cause(server_text) or server_cause("\n".join(line.strip() for line in lines[1:]))
    elif len(lines) > 1:
        last = lines[-1] if lines[0] == UNCAUGHT else None
        cause = next((line for line in reversed(lines) if re.match(EXCEPTION, line.strip(" |"))), last)
        cause = clean(cause.strip(" |")) if cause else None
    elif " requests failed" in lines[0]:
        failed = [match[1] for _, said in every if (match := FAILED_REQUEST.match(said[0]))]
        cause = clean(failed[-1]) if failed else None
    return clean(SERVER_LINES.sub("", lines[0])), cause


def serious_lines(text: str) -> Iterator[str]:
    """Yield the lines of a server's log whose level, if they have one, is an error's, without what stands before."""
    for raw in text.split("\n"):
        line = ESCAPES.sub("", raw)
        prefix = SERVER_PREFIX.match(line)
        assert prefix is not None  # it matches nothing as well
        if prefix[1] not in HARMLESS_LEVELS:
            yield line[prefix.end() :]


def server_cause(text: str) -> str | None:
    """Return the first line of a server's log that looks like the cause of its end, if one does."""
    consequence = None
    for message in map(str.strip, serious_lines(text)):
        if CAUSE.match(message):
            shown = clean(message.partition(" [type=")[0])
            if not any(words in message for words in CONSEQUENCES):
                return shown
            consequence = consequence or shown
    return consequence


def at_work(text: str) -> bool:
    """Tell whether a load's engine is ready: its log says so, or counts requests, after it was started last."""
    last = next((said[0] for _, said in reversed(records(text)) if AT_WORK.match(said[0])), STARTS)
    return not last.startswith(STARTS)


def progress(text: str) -> str:
    """Return how far a job has come: its last line of progress, or else the last thing that it said."""
    messages = [said[0] for _, said in records(text)]
    line = next((line for line in reversed(messages) if PROGRESS.match(line)), messages[-1] if messages else "")
    return clean(line.split(": ", 1)[0] if line.startswith(STARTS) else line)
