"""Calls of the library in a process of their own: the hub's library reads its environment once, when it is imported."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

PROGRAM = """
import json, logging, sys
from refusal_eval.core.errors import UserError

from refusal_eval.data import network

network.WAIT_SECONDS = 0.01
logging.basicConfig(level=logging.INFO)
log, told = logging.getLogger("calls"), []
{definition}
for arguments in json.load(sys.stdin):
    try:
        told.append(call(*arguments))
    except UserError as error:
        told.append(str(error))
    except Exception as error:
        told.append(f"a traceback: {{error!r}}")
print(json.dumps(told))
"""
FETCH = """
from refusal_eval.data.hub import locked_files
from refusal_eval.features.lora.adapter import fetch_adapter
from refusal_eval.study.row_sources import row_source
from refusal_eval.weights.weight_fetching import Fetching, fetch_from_hub

def call(what, source, target, cache, lock):
    locked = locked_files({"lock": lock}, "dataset" if what == "rows" else "model", source)
    if what == "rows":
        row_source(source).fetch(target, cache, log, locked)
    elif what == "adapter":
        fetch_adapter(source, Fetching(target, cache, log, locked=locked))
    else:
        fetch_from_hub(what, source, Fetching(target, cache, log, locked=locked))
"""


def called(definition: str, calls: Iterable[Sequence[Any]], home: Path, **environment: str) -> tuple[list[Any], str]:
    """Call the function `call` of a definition with each of these arguments, without a user's token or cache.

    Return what it returned, or the message of its error, and the log.
    """
    own = {"PYTHONPATH": str(Path(__file__).parents[1] / "scripts"), "HF_HOME": str(home / "home")}
    own |= {"PATH": os.environ["PATH"], **environment}
    command, text = [sys.executable, "-c", PROGRAM.format(definition=definition)], json.dumps(list(calls))
    run = subprocess.run(command, input=text, env=own, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1]), run.stderr


def fetched(
    calls: Iterable[tuple[str, Any, str, str | None]], folder: Path, cache: Path | None = None, **environment: str
) -> tuple[list[Any], str]:
    """Fetch what is wanted: (rows, tokenizer, weights or adapter; source; target in the folder; lock file or None)."""
    place = str(cache or folder / "cache")
    given = [(what, source, str(folder / target), place, lock) for what, source, target, lock in calls]
    return called(FETCH, given, folder, **environment)
