"""How long one million judged answers take to become scores with intervals, and how much memory.

Made-up answers and verdicts are written as the workflow writes them; then what the rule `score` runs goes over all
cells, in as many processes as there are cores. Snakemake's own second or two per job is left out.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import random
import resource
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from measuring import print_head, print_limit, print_values

from refusal_eval.answers import blank
from refusal_eval.files import write_jsonl
from refusal_eval.judges.base import Verdict, verdict_row
from refusal_eval.states import COMPLETE, COMPLIANCE, JUDGED, PARTIAL, REFUSAL

SECONDS_LIMIT, GIB_LIMIT = 20.0, 4.0
SENTENCE = "This is a made-up answer that is about as long as the answers that models give to short questions. "
PROMPTS_PER_CLUSTER = 2


@dataclass(frozen=True)
class Cell:
    """Where the files of a cell lie."""

    folder: Path
    model: str
    split: str
    samples: int
    prompts: int

    def path(self, kind: str, ending: str = "jsonl") -> str:
        """Return a file of the cell."""
        return str(self.folder / kind / self.model / f"{self.split}.{ending}")


@dataclass(frozen=True)
class Worked:
    """What one cell took: seconds, of processor and of intervals too; its process with its peak memory (GiB)."""

    seconds: float
    cpu_seconds: float
    interval_seconds: float
    process: int
    peak: float


def main() -> None:
    """Measure and print."""
    arguments = parsed()
    total = arguments.models * arguments.splits * arguments.prompts * arguments.samples
    print_head(
        f"Scoring {total} judged answers: {arguments.models} models x {arguments.splits} splits x "
        f"{arguments.prompts} prompts x K {arguments.samples}, {arguments.processes} processes"
    )
    with tempfile.TemporaryDirectory(prefix="refusal-eval-scoring-") as folder:
        cells = [
            Cell(Path(folder), f"m{model:02d}", f"s{split:02d}", arguments.samples, arguments.prompts)
            for model in range(arguments.models)
            for split in range(arguments.splits)
        ]
        with ProcessPoolExecutor(arguments.processes) as pool:
            sizes = list(pool.map(write_cell, cells))
        print(f"files: {sum(sizes) / 2**20:.0f} MiB of answers and verdicts", flush=True)
        walls, peaks = [], []
        for _ in range(arguments.runs):
            wall, peak, worked = score_all(cells, arguments.processes)
            walls.append(wall)
            peaks.append(peak)
            intervals = sum(cell.interval_seconds for cell in worked)
            rest = sum(cell.seconds for cell in worked) - intervals
            print(
                f"one run: {wall:.1f} s; in all processes together {rest:.1f} s reading, scoring and writing, "
                f"{intervals:.1f} s intervals, {sum(cell.cpu_seconds for cell in worked):.1f} s of processor time; "
                f"{peak:.2f} GiB",
                flush=True,
            )
        wall = print_values("all cells, start of the processes to the end", walls)
        peak = print_values("peak memory of all processes together", peaks, "GiB")
        print_limit(f"seconds for {total} answers", wall, SECONDS_LIMIT, "s")
        print_limit("memory", peak, GIB_LIMIT, "GiB")


def parsed() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--models", type=int, default=20)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--prompts", type=int, default=1000, help="prompts per split")
    parser.add_argument("--samples", type=int, default=5, help="K")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--runs", type=int, default=3)
    return parser.parse_args()


def write_cell(cell: Cell) -> int:
    """Write prompts, answers and verdicts of one cell, always the same ones; return their size in bytes."""
    rng = random.Random(f"{cell.model}/{cell.split}")
    prompts, answers, verdicts = [], [], []
    rate = rng.random()
    for number in range(cell.prompts):
        prompt = f"{rng.getrandbits(64):016x}"
        cluster = f"c{number // PROMPTS_PER_CLUSTER}"
        messages = [{"role": "user", "content": f"A made-up question, number {number}?"}]
        source = {"file": "made-up.jsonl", "id": None, "row": number + 1}
        prompts.append(
            {"id": prompt, "messages": messages, "category": "made-up", "cluster": cluster, "source": source}
        )
        of_prompt = min(1.0, max(0.0, rng.gauss(rate, 0.2)))
        for sample in range(cell.samples):
            length = rng.randrange(3, 9)
            answer = {
                **{"prompt_id": prompt, "sample": sample, "turn": 0, "key": f"{rng.getrandbits(256):064x}"},
                **{"serving": "0123456789abcdef", **blank(COMPLETE, "stop"), "answer": SENTENCE * length},
                **{"answer_tokens": 20 * length, "answer_logprob": -rng.random() * 2},
            }
            label = rng.choice((REFUSAL, REFUSAL, PARTIAL)) if rng.random() < of_prompt else COMPLIANCE
            verdict = Verdict(JUDGED, label, round(rng.random(), 9), raw={"mass": round(rng.random(), 9), "text": "A"})
            answers.append(answer)
            verdicts.append(verdict_row(answer, verdict, f"{rng.getrandbits(256):064x}"))
    for kind, rows in (("prompts", prompts), ("answers", answers), ("verdicts", verdicts)):
        write_jsonl(cell.path(kind), rows)
    return sum(os.path.getsize(cell.path(kind)) for kind in ("answers", "verdicts"))


def score_all(cells: list[Cell], processes: int) -> tuple[float, float, list[Worked]]:
    """Score all cells in new processes; return seconds, peak memory of all (GiB) and what each cell took."""
    # Spawned and not forked: a fork would begin with this process's memory.
    context = multiprocessing.get_context("spawn")
    started = time.perf_counter()
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        worked = list(pool.map(score, cells))
    wall = time.perf_counter() - started
    peaks: dict[int, float] = {}
    for cell in worked:
        peaks[cell.process] = max(cell.peak, peaks.get(cell.process, 0.0))
    return wall, sum(peaks.values()), worked


def score(cell: Cell) -> Worked:
    """Score one cell by the script of the rule `score`."""
    import score_cell

    from refusal_eval import intervals, scores

    gc.disable()  # as the script does when Snakemake runs it
    spent = [0.0]

    def clocked(interval: Callable[..., Any]) -> Callable[..., Any]:
        def measured(*arguments: Any, **named: Any) -> Any:
            started = time.perf_counter()
            try:
                return interval(*arguments, **named)
            finally:
                spent[0] += time.perf_counter() - started

        return measured

    started, cpu = time.perf_counter(), time.process_time()
    with (
        mock.patch.object(scores, "cluster_wilson", clocked(intervals.cluster_wilson)),
        mock.patch.object(scores, "cluster_bootstrap_mean", clocked(intervals.cluster_bootstrap_mean)),
    ):
        score_cell.main(
            paths={kind: cell.path(kind) for kind in ("prompts", "answers", "verdicts")},
            cell={
                **{"judge": "made-up", "model": cell.model, "split": cell.split, "samples": cell.samples},
                **{"expectation": "varies", "headline": None, "max_tokens": 512},
                **{"tau": 1.0, "band": 0.1, "level": 0.95},
            },
            csv_path=cell.path("scores", "csv"),
            json_path=cell.path("scores", "json"),
        )
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return Worked(seconds, time.process_time() - cpu, spent[0], os.getpid(), peak)


if __name__ == "__main__":
    main()
