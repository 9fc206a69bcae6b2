"""The common start of the rules' scripts: plug-ins, and a log file and the console, with uncaught errors in both."""

import logging
import re
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import disk_is_full, no_room, not_written
from refusal_eval.core.plugins import load_plugins
from refusal_eval.core.texts import visible

LOG = logging.getLogger("refusal_eval")  # of the rules' scripts
FORMAT = "%(asctime)s %(levelname)s %(message)s"
# Libraries that log a line for every request, lock or font.
QUIET = ("httpx", "httpcore", "httpx2", "httpcore2", "filelock", "fsspec", "matplotlib", "fontTools")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # of servers' own lines


LONGEST_SHOWN = 200  # characters of a line on the console; the log file has it whole


class ShownFormatter(logging.Formatter):
    """Leaves nothing in a line that steers a terminal or hides or reorders text: models and servers wrote some of it.

    Colours are dropped, other characters of that kind become codes (`texts.visible`).
    """

    def format(self, record: logging.LogRecord) -> str:
        return visible(_COLOUR.sub("", super().format(record)))


class ConsoleFormatter(ShownFormatter):
    """Shortens long lines that are no warnings, such as an engine's command line."""

    def format(self, record: logging.LogRecord) -> str:
        text, more = super().format(record), " ... (the log has all of it)"
        is_long = record.levelno < logging.WARNING and len(text) > LONGEST_SHOWN
        return text[: LONGEST_SHOWN - len(more)] + more if is_long else text


def start_log(snakemake: Any) -> logging.Logger:
    """Begin a rule's script: load the study's plug-ins, and log to `snakemake.log[0]` and to stderr.

    Uncaught errors go there too. Returns `LOG`.
    """
    path = Path(snakemake.log[0])
    path.parent.mkdir(parents=True, exist_ok=True)
    handlers: list[logging.Handler] = [
        logging.FileHandler(path, mode="w", encoding="utf-8", errors="backslashreplace"),
        logging.StreamHandler(sys.stderr),
    ]
    for handler, formatter in zip(handlers, (ShownFormatter, ConsoleFormatter), strict=True):
        handler.setFormatter(formatter(FORMAT, "%H:%M:%S"))
    logging.basicConfig(level=logging.INFO, handlers=handlers, force=True)
    for noisy in QUIET:
        logging.getLogger(noisy).setLevel(logging.WARNING)

    def log_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, UserError):
            LOG.error("%s", error)
        elif isinstance(error, OSError) and disk_is_full(error):
            LOG.error("%s%s", f"{error.filename}: " if error.filename else "", no_room(error))
        elif isinstance(error, OSError) and (said := not_written(error)):
            LOG.error("%s", said)
        else:
            LOG.error("uncaught error", exc_info=(kind, error, trace))

    sys.excepthook = log_uncaught
    load_plugins(snakemake.config.get("plugins", ()))
    return LOG
