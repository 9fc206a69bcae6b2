"""How long one million judged answers take to become scores with intervals, and how much memory.

The made-up study of reporting_speed.py is written up to verdicts; then the script of the rule `score` goes over all
cells, in as many processes as there are cores. Snakemake's own second or two per job is left out.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from made_up_study import make_study
from measuring import print_head, print_limit, print_values
from reporting_speed import parser, peak_of, reported, size_of
from rule_jobs import planned, run

SECONDS_LIMIT, GIB_LIMIT = 20.0, 4.0


def main() -> None:
    """Measure and print."""
    options = parser((__doc__ or "").split("\n")[0])
    options.add_argument("--runs", type=int, default=3)
    arguments = options.parse_args()
    size = size_of(arguments)
    print_head(f"Scoring {size.answers} judged answers: {reported(arguments)}")
    walls, processor, peaks = [], [], []
    with tempfile.TemporaryDirectory(prefix="refusal-eval-scoring-") as temporary:
        folder = Path(arguments.keep or temporary)
        study = make_study(folder, size, arguments.processes)
        jobs = [job for level in planned(study, folder, {}) for job in level if job.rule == "score"]
        for _ in range(arguments.runs):
            started = time.perf_counter()
            done = list(run([jobs], folder, arguments.processes))
            walls.append(time.perf_counter() - started)
            processor.append(sum(job.cpu_seconds for job in done))
            peaks.append(peak_of(done))
    wall = print_values("all cells, start of the processes to the end", walls)
    print_values("processor time of all cells", processor)
    peak = print_values("peak memory of all processes together", peaks, "GiB")
    print_limit(f"seconds for {size.answers} answers", wall, SECONDS_LIMIT, "s")
    print_limit("memory", peak, GIB_LIMIT, "GiB")


if __name__ == "__main__":
    main()
