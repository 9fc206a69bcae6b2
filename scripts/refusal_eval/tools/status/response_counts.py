"""Counting without parsing: the keys of request files, those of them in the store, the states in answers files.

A large study has millions of rows. The files are canonical JSON, in which a quote inside a text is written `\\"`: what
looks like a key of a row is one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from refusal_eval.ask.requests import read_requests
from refusal_eval.ask.store import StoreReader
from refusal_eval.core.files import BadFile

SAMPLE_KEY = re.compile(rb'"key":(?:"([0-9a-f]{64})"|null)')
# The state is the last key of a row but for plain values; what a judge of the user's own noted lies deeper.
STATE = re.compile(rb'"state":"([a-z_]+)"(?:,"[a-z_]+":(?:[-+.0-9eE]+|null|true|false|"[^"\\]*"))*\}\n')


@dataclass(frozen=True)
class Asked:
    """What a request file asks for. Of dialogues the first turn only: later ones follow from its answer.

    Attributes:
        engine_id: the engine that is asked.
        dialogue: whether the requests are first turns.
        keys: of the requests that can be executed, in the file's order.
        too_long: requests that do not fit the engine.
    """

    engine_id: str
    dialogue: bool
    keys: list[str]
    too_long: int


@dataclass(frozen=True)
class Counts:
    """Requests of one cell: in the store, rejected by the engine, and in neither place."""

    done: int
    rejected: int
    missing: int


def read_asked(path: str | Path) -> Asked:
    """Return what a request file asks for.

    Raises:
        BadFile: if it is not a request file of this key version.
        OSError: if it cannot be read.
    """
    try:
        header = read_requests(path).header
        engine_id, dialogue = str(header["engine_id"]), bool(header.get("dialogue"))
    except (KeyError, UnicodeDecodeError) as error:
        raise BadFile(f"{path} is damaged: {error!r}; delete it and run again") from error
    data = Path(path).read_bytes()
    keys: list[bytes] = SAMPLE_KEY.findall(data, data.find(b"\n"))
    executable = [key.decode("ascii") for key in keys if key]
    return Asked(engine_id, dialogue, executable, len(keys) - len(executable))


def count_stored(
    store_dir: str, asked: Mapping[str, Asked], rejected: Mapping[str, Collection[str]]
) -> dict[str, Counts]:
    """Return how many requests of each cell are in the store; each engine's store is opened once.

    Args:
        store_dir: the store.
        asked: what is asked, by the cell's name.
        rejected: the keys that the engine rejected, by the cell's name.
    """
    counts: dict[str, Counts] = {}
    for engine_id in sorted({what.engine_id for what in asked.values()}):
        names = [name for name, what in asked.items() if what.engine_id == engine_id]
        lost = set(StoreReader(store_dir, engine_id).missing(key for name in names for key in asked[name].keys))
        for name in names:
            without = [key for key in asked[name].keys if key in lost]
            refused = sum(key in rejected.get(name, ()) for key in without)
            counts[name] = Counts(len(asked[name].keys) - len(without), refused, len(without) - refused)
    return counts


def count_states(path: str | Path) -> dict[str, int]:
    """Return how many rows of an answers or verdicts file are in each state (nothing when it cannot be read)."""
    try:
        counts = Counter(STATE.findall(Path(path).read_bytes()))
    except OSError:
        return {}
    return {state.decode("ascii"): count for state, count in counts.items()}
