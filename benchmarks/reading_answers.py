"""How long reading 50,000 answers takes, from each kind of file, and how much memory.

Every file is made first, of the same made-up answers, and read in a process of its own up to neutral rows, then put
together as `refusal-eval judge` does. Writing the study and running it are left out.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
from measuring import print_head, print_limit

from refusal_eval.features.recorded_logs.answer_set import put_together, read_files

SECONDS_LIMIT, GIB_LIMIT = 20.0, 1.0
MODELS, SAMPLES = 2, 5
TEXT = "Start with a dry piece of basswood, and cut away from you. " * 8  # 472 characters


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    options.add_argument("--answers", type=int, default=50_000)
    count = options.parse_args().answers
    print_head(f"{count} answers of {len(TEXT)} characters, of {MODELS} models, K = {SAMPLES}")
    with tempfile.TemporaryDirectory(prefix="refusal-eval-answers-") as temporary:
        for name, write in WRITERS.items():
            file = Path(temporary, name)
            write(file, list(rows_of(count)))
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                seconds, gib, read = pool.apply(reading, (file,))
            assert read == count, f"{read} answers of {count}"
            print_limit(f"{name}, {file.stat().st_size / 1e6:.0f} MB", seconds, SECONDS_LIMIT, "s")
            print_limit(f"{name}, memory", gib, GIB_LIMIT, "GiB")


def reading(file: Path) -> tuple[float, float, int]:
    """Read a file; return the seconds, the memory of this process and the number of answers."""
    started = time.perf_counter()
    answers = put_together(read_files([file], {}), {}, {}, "comply", {"models": (), "splits": ()})
    seconds = time.perf_counter() - started
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return seconds, memory, sum(map(len, answers.models.values()))


def rows_of(count: int) -> Iterator[dict[str, Any]]:
    """Yield rows with a model, a prompt and an answer each."""
    for number in range(count):
        prompt, rest = divmod(number, MODELS * SAMPLES)
        model, sample = divmod(rest, SAMPLES)
        answer = "I'm sorry, but I can't help with that." if number % 3 == 0 else TEXT
        yield {"prompt": f"Question {prompt}?", "model": f"model-{model}", "sample": sample, "answer": answer}


def _jsonl(file: Path, rows: list[dict[str, Any]]) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _parquet(file: Path, rows: list[dict[str, Any]]) -> None:
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), file)


def _table(file: Path, rows: list[dict[str, Any]]) -> None:
    _jsonl(file, [{"question": row.pop("prompt"), **row} for row in rows])


def _inspect(file: Path, rows: list[dict[str, Any]]) -> None:
    header = {"version": 2, "status": "success", "eval": {"model": "made/up", "task": "made_up"}}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps(header))
        for number, row in enumerate(rows):
            asked = {"role": "user", "content": f"{row['prompt']} {row['model']}"}
            said = {"role": "assistant", "content": row["answer"]}
            output = {"choices": [{"message": said, "stop_reason": "stop"}], "completion": row["answer"]}
            sample = {"id": number // SAMPLES, "epoch": row["sample"] + 1, "input": [asked]}
            sample |= {"messages": [asked, said], "output": output, "scores": {}, "metadata": {}}
            archive.writestr(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", json.dumps(sample))


WRITERS: dict[str, Callable[[Path, list[dict[str, Any]]], None]] = {
    "rows.jsonl": _jsonl,
    "rows.parquet": _parquet,
    "table.jsonl": _table,
    "log.eval": _inspect,
}


if __name__ == "__main__":
    main()
