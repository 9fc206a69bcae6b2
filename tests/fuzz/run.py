"""Fuzz targets in a process of their own: `python -m fuzz.run TARGET ... --cases 200 --seed 1` in tests/."""

import argparse
import faulthandler
import json
import logging
import os
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from random import Random
from typing import Any

from fuzz.mutations import mutated_bytes, mutated_value
from fuzz.targets import Target, all_targets

SECONDS = 5.0  # that a case may take
MEMORY = 2**30  # bytes that a case may take on top of what the loaded program has
MOST_FINDINGS = 5


def encoded(target: Target, value: object) -> bytes:
    """Return a seed as bytes."""
    if isinstance(value, bytes):
        return value
    assert target.encode is not None
    return target.encode(value)


def case_of(target: Target, seeds: list[object], seed: int, number: int) -> bytes:
    """Return the bytes of a case; the same numbers give the same bytes."""
    random = Random(f"{target.name} {seed} {number}")
    chosen = random.choice(seeds)
    if target.encode is None or isinstance(chosen, bytes) or random.random() < 0.5:
        return mutated_bytes(random, encoded(target, chosen), [encoded(target, one) for one in seeds])
    data = target.encode(mutated_value(random, chosen))
    return mutated_bytes(random, data, [data]) if random.random() < 0.1 else data


def parsed(target: Target, data: bytes, folder: Path) -> bool:
    """Give a case to the parser in an empty working directory; return whether it was accepted."""
    place = folder / "case"
    place.mkdir()
    os.chdir(place)
    try:
        target.parse(data, place)
    except target.refusals:
        return False
    finally:
        os.chdir(folder)
        shutil.rmtree(place, ignore_errors=True)
    return True


def limit_memory() -> None:
    """Let this process grow by `MEMORY` at most; what it takes beyond is a MemoryError."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, hard))


def fuzz(target: Target, seeds: list[object], seed: int, cases: int, folder: Path) -> dict[str, Any]:
    """Give mutated inputs to a target; return the counts and what was found."""
    counts, findings, slowest = {"accepted": 0, "refused": 0}, list[str](), 0.0
    for number in range(cases):
        data = case_of(target, seeds, seed, number)
        print(f"{target.name}: case {number}", file=sys.stderr, flush=True)
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        started = time.monotonic()
        try:
            counts["accepted" if parsed(target, data, folder) else "refused"] += 1
        except BaseException as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{os.path.basename(place.filename)}:{place.lineno}"
            findings.append(f"case {number}: {type(error).__name__} at {where}: {str(error)[:300]!r}")
        finally:
            faulthandler.cancel_dump_traceback_later()
        slowest = max(slowest, time.monotonic() - started)
        if len(findings) == MOST_FINDINGS:
            break
    return {"target": target.name, **counts, "slowest": round(slowest, 3), "findings": findings}


def main() -> int:
    """Run the command line; print a JSON report for each target; return 1 for findings."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("targets", nargs="+")
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int, help="only this one, with its traceback")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    found = 0
    for name in options.targets:
        target = all_targets()[name]
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            (folder / "seeds").mkdir()
            seeds = list(target.seeds(folder / "seeds"))
            for one in seeds:  # which also loads what the parser needs
                assert parsed(target, encoded(target, one), folder), f"{name}: a valid input was refused"
            limit_memory()
            if options.case is not None:
                data = case_of(target, seeds, options.seed, options.case)
                print(data[:3000])
                print("accepted" if parsed(target, data, folder) else "refused")
                continue
            report = fuzz(target, seeds, options.seed, options.cases, folder)
        print(json.dumps(report), flush=True)
        found += len(report["findings"])
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
