"""Time what a job asks of a large store: responses by key, and which keys are missing, each in a fresh process.

    .venv/workflow/bin/python benchmarks/store_lookup.py --responses 1000000 --files 1 200 --keys 10000

Files are read from memory if the machine has enough of it: on a cold disk add what the disk takes. Peak memory is read
from /proc, so that this runs on Linux.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

from measuring import print_limit

from refusal_eval.ask.store import StoreReader
from refusal_eval.core.files import canonical_json
from refusal_eval.core.packing import pack_floats

ENGINE = "benchmark"
LIMIT = 2.0  # seconds, for 10,000 keys among 1,000,000 responses
REPEATS = 3
WORDS = ("the", "of", "and", "to", "in", "that", "it", "is", "was", "for", "on", "are", "as", "with", "they", "be")


def main(arguments: Sequence[str] | None = None) -> None:
    """Write a store for each number of files, measure it, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--responses", type=int, default=1_000_000, help="responses in the store (default: %(default)s)"
    )
    parser.add_argument("--files", type=int, nargs="+", default=[1, 200], help="files they lie in (default: 1 200)")
    parser.add_argument("--keys", type=int, default=10_000, help="keys looked up at once (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="where a temporary folder is made (default: the system's)")
    options = parser.parse_args(arguments)
    for files in options.files:
        folder = Path(tempfile.mkdtemp(prefix="store-benchmark-", dir=options.folder))
        try:
            size = write_store(folder, options.responses, files)
            print(f"{options.responses:,} responses in {files:,} files, {size / 1e6:,.0f} MB; {options.keys:,} keys")
            measure(folder, options.responses, options.keys)
        finally:
            shutil.rmtree(folder)


def measure(folder: Path, responses: int, keys: int) -> None:
    """Print the table of one store."""
    row("first read, no index", [fresh(look_up, folder, responses, keys)])
    lookups = [fresh(look_up, folder, responses, keys) for _ in range(REPEATS)]
    row("reader + lookup, index", lookups)
    print_limit("  the median of these lookups", statistics.median(run[0] for run in lookups), LIMIT, "s")
    row("reader + missing, index", [fresh(miss, folder, responses, keys) for _ in range(REPEATS)])
    row("reader + missing, all keys", [fresh(miss, folder, responses, responses)])


def row(name: str, runs: list[tuple[float, float]]) -> None:
    """Print one line: all times, their median, and the highest memory."""
    seconds = [run[0] for run in runs]
    memory = max(run[1] for run in runs)
    times = " ".join(f"{value:.2f}" for value in seconds)
    print(f"  {name:28}{times:>18} s   median {statistics.median(seconds):5.2f} s   peak {memory:5,.0f} MB", flush=True)


def fresh(task: Callable[[Path, list[str]], None], folder: Path, responses: int, keys: int) -> tuple[float, float]:
    """Return the seconds and the peak memory in MB of a task in a process of its own, imports left out of the time."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        return pool.submit(timed, task, folder, responses, keys).result()


def timed(task: Callable[[Path, list[str]], None], folder: Path, responses: int, keys: int) -> tuple[float, float]:
    """Run a task on evenly spread keys; return seconds and peak memory in MB."""
    asked = [key(number * responses // keys) for number in range(keys)]
    started = time.perf_counter()
    task(folder, asked)
    seconds = time.perf_counter() - started
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return seconds, int(peak.split()[1]) / 1000


def look_up(folder: Path, keys: list[str]) -> None:
    """Look all keys up."""
    assert len(StoreReader(folder, ENGINE).lookup(keys)) == len(keys)


def miss(folder: Path, keys: list[str]) -> None:
    """Ask which keys are missing, one of them being so."""
    assert StoreReader(folder, ENGINE).missing([*keys, key(-1)]) == [key(-1)]


def write_store(folder: Path, responses: int, files: int) -> int:
    """Write store files directly, without indexes; return their bytes. Responses are dealt out to the files in turn."""
    (folder / ENGINE).mkdir()
    ends = [line_end(random.Random(number)) for number in range(100)]
    for file in range(files):
        with open(folder / ENGINE / f"20250101T{file:06d}.000000-0-host-1.jsonl", "w", encoding="utf-8") as handle:
            handle.write(canonical_json({"serving_id": "s", "serving_record": {"vllm": "x"}}) + "\n")
            for number in range(file, responses, files):
                handle.write(f'{{"key":"{key(number)}",{ends[number % 100]}')
    return sum(path.stat().st_size for path in (folder / ENGINE).iterdir())


def key(number: int) -> str:
    """Return a key."""
    return hashlib.sha256(str(number).encode()).hexdigest()


def line_end(draw: random.Random) -> str:
    """Return what follows the key in the record of an answer of about 90 tokens: about 1.5 KB."""
    tokens = draw.randint(60, 120)
    response = {
        "finish_reason": "length",
        "logprobs": pack_floats([-draw.expovariate(1.0) for _ in range(tokens)]),
        "prompt_tokens": 61,
        "stop_reason": None,
        "text": " ".join(draw.choices(WORDS, k=tokens)),
        "token_ids": [draw.randint(100, 49151) for _ in range(tokens)],
    }
    record = {"response": response, "serving": "s", "time": "2025-01-01T00:00:00.000000+00:00"}
    return json.dumps(record, separators=(",", ":"))[1:] + "\n"


if __name__ == "__main__":
    main()
