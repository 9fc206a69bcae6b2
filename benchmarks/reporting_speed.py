"""How long one million judged answers take to all scores, estimates, tables and figures, and how much memory.

A made-up study of 20 models, 10 splits, 1,000 prompts and K = 5 is written up to verdicts. Snakemake plans it, and the
jobs' own scripts then run in as many processes as there are cores. What Snakemake takes for each job (a second or two)
is left out, as is writing the made-up study.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from made_up_study import Size, make_study
from measuring import print_head, print_limit
from rule_jobs import Done, planned, run

SECONDS_LIMIT, GIB_LIMIT = 60.0, 4.0


def main() -> None:
    """Measure and print."""
    arguments = parser((__doc__ or "").split("\n")[0]).parse_args()
    size = size_of(arguments)
    print_head(f"{size.answers} judged answers to scores, estimates, tables and figures: {reported(arguments)}")
    with tempfile.TemporaryDirectory(prefix="refusal-eval-reporting-") as temporary:
        folder = Path(arguments.keep or temporary)
        study = make_study(folder, size, arguments.processes)
        levels = planned(study, folder, {})
        started = time.perf_counter()
        done = list(run(levels, folder, arguments.processes))
        seconds = time.perf_counter() - started
        print_jobs(done)
        print_limit(f"seconds for {size.answers} answers", seconds, SECONDS_LIMIT, "s")
        print_limit("memory of all processes", peak_of(done), GIB_LIMIT, "GiB")


def parser(description: str) -> argparse.ArgumentParser:
    """Return the options of a made-up study and of the processes that take it further."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--models", type=int, default=20)
    options.add_argument("--splits", type=int, default=10)
    options.add_argument("--prompts", type=int, default=1000, help="prompts per split")
    options.add_argument("--samples", type=int, default=5, help="K")
    options.add_argument("--judges", type=int, default=1)
    options.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options.add_argument("--keep", metavar="FOLDER", help="write the study here and leave it")
    return options


def size_of(arguments: argparse.Namespace) -> Size:
    """Return the size of the study that is asked for."""
    return Size(arguments.models, arguments.splits, arguments.prompts, arguments.samples, arguments.judges)


def reported(arguments: argparse.Namespace) -> str:
    """Return the size of the study in words."""
    return (
        f"{arguments.models} models x {arguments.splits} splits x {arguments.prompts} prompts x K {arguments.samples}, "
        f"{arguments.judges} judge(s), {arguments.processes} processes"
    )


def peak_of(done: list[Done]) -> float:
    """Return the peak memory of all processes together (GiB)."""
    peaks: dict[int, float] = {}
    for job in done:
        peaks[job.process] = max(job.peak, peaks.get(job.process, 0.0))
    return sum(peaks.values())


def print_jobs(done: list[Done]) -> None:
    """Print what the jobs of each rule took."""
    for rule in dict.fromkeys(job.rule for job in done):
        own = [job for job in done if job.rule == rule]
        seconds, cpu = sum(job.seconds for job in own), sum(job.cpu_seconds for job in own)
        print(f"{rule:<24} {len(own):5d} jobs {seconds:8.1f} s {cpu:8.1f} s of processor time", flush=True)
    total = sum(job.cpu_seconds for job in done)
    print(f"processor time of all jobs: {total:.1f} s; less disturbed by other work than the seconds", flush=True)


if __name__ == "__main__":
    main()
