"""How long the browser's page of 50,000 answers takes: to be written, to be seen, to be searched; and how large it is.

Answers are made-up words that are as frequent as words are, so that they compress about as English does. The page is
written by `refusal-eval browse` and opened from disk in a headless Chromium.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from made_up_study import STUDY, Size, make_study
from measuring import ROOT, print_head, print_limit, timed

sys.path.insert(0, str(ROOT / "tests"))

from browser import Browser  # type: ignore[import-not-found]

from refusal_eval.report.results.results_files import Result, results_csv, table_rows
from refusal_eval.stats.estimates.estimate import Estimate

MEGABYTES, WRITTEN, SEEN, SEARCHED = 40.0, 6.0, 3.0, 0.2
WORDS_OF_ANSWER = 170
LETTERS = ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "st", "tr", "sh", "ch", "pl")
STATES = ("complete",) * 46 + ("truncated", "truncated", "blocked", "empty")
# What a person looks for: words of many answers, of few, of none, and expressions.
QUERIES = (
    ("help", False),
    ("zzz", False),
    ("made-up question", False),
    (r"can(no|')t \w+", True),
    (r"\bno\w*\b", True),
)


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    options.add_argument("--models", type=int, default=5)
    options.add_argument("--splits", type=int, default=5)
    options.add_argument("--prompts", type=int, default=400, help="prompts per split")
    options.add_argument("--samples", type=int, default=5, help="K")
    options.add_argument("--judges", type=int, default=2)
    options.add_argument("--keep", metavar="FOLDER", help="write the study and its page here and leave them")
    given = options.parse_args()
    size = Size(given.models, given.splits, given.prompts, given.samples, given.judges)
    print_head(f"the browser's page of {size.answers:,} answers")
    with tempfile.TemporaryDirectory(prefix="refusal-eval-browsing-") as temporary:
        folder = Path(given.keep or temporary).resolve()
        if not (folder / "study.yaml").is_file():
            make_answers(folder, size)
        measure(folder)


def measure(folder: Path) -> None:
    """Write the page of a study, open it and search it."""
    page = folder / "results" / STUDY / "browser.html"
    command, before = [sys.executable, "-m", "refusal_eval", "browse", "study.yaml"], cpu_seconds()
    seconds = timed(command, folder, {**os.environ, "PYTHONPATH": str(ROOT / "scripts")}).seconds
    print_limit("page written by the program", seconds, WRITTEN, "s")
    print(f"{'processor time of that':<44} {cpu_seconds() - before:.2f} s; less disturbed by other work")
    print_limit("size of the page", page.stat().st_size / 1e6, MEGABYTES, "MB")
    with tempfile.TemporaryDirectory(prefix="refusal-eval-browser-") as profile:
        browser = Browser(Path(profile))
        try:
            view, whole = opened(browser, page.as_uri())
            print_limit("first view", view, SEEN, "s")
            print(f"{'all texts unpacked':<44} {whole:.2f} s")
            for query, regex in QUERIES:
                print_limit(f"search for {query}", searched(browser, query, regex), SEARCHED, "s")
            heap = browser.run("performance.memory.usedJSHeapSize") / 1e6
            print(f"{'memory of the page':<44} {heap:.0f} MB")
        finally:
            browser.close()


def opened(browser: Browser, address: str) -> tuple[float, float]:
    """Open the page; return the seconds until rows can be seen, and until all texts are there."""
    started = time.perf_counter()
    browser.open(address, 1280, 800)
    times = []
    for state in ("view", "texts"):
        later = "" if state == "texts" else " || document.body.dataset.ready === 'texts'"
        browser.run(
            f"new Promise((done) => {{ const look = () => document.body.dataset.ready === '{state}'{later}"
            " ? done(1) : setTimeout(look, 5); look(); })"
        )
        times.append(time.perf_counter() - started)
    return times[0], times[1]


def searched(browser: Browser, query: str, regex: bool) -> float:
    """Return the median seconds from the last letter of a query until what it leaves has been laid out."""
    times = []
    for _ in range(5):
        times.append(
            float(
                browser.run(
                    f"""(() => {{
                  chosen.regex = {json.dumps(regex)};
                  at('query').value = '';
                  at('query').dispatchEvent(new Event('input'));
                  at('list').offsetHeight;
                  const begun = performance.now();
                  at('query').value = {json.dumps(query)};
                  at('query').dispatchEvent(new Event('input'));
                  at('list').offsetHeight;
                  return (performance.now() - begun) / 1000;
                }})()"""
                )
            )
        )
    print(f"{'':<4}{browser.text('#counts')}")
    return statistics.median(times)


def cpu_seconds() -> float:
    """Return the processor time of all processes that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# ---------------------------------------------------------------- the study


def make_answers(folder: Path, size: Size) -> None:
    """Write a study with answers that differ, and the results table with a rate for each cell."""
    make_study(folder, size)
    results = folder / "results" / STUDY
    for path in sorted((results / "answers").glob("*/*.jsonl")):
        rng = random.Random(f"{path.parent.name}/{path.stem}")
        words, weights = vocabulary()
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for row in rows:
            row["state"] = rng.choice(STATES)
            text = " ".join(
                rng.choices(words, cum_weights=weights, k=rng.randrange(WORDS_OF_ANSWER // 4, WORDS_OF_ANSWER * 7 // 4))
            )
            row["answer"] = text.capitalize() + "." if row["state"] in ("complete", "truncated") else ""
            row["reasoning"] = text[: len(text) // 2] if rng.random() < 0.1 else None
            if row["state"] == "blocked":
                row["blocked"] = {
                    "by": rng.choice(("classifier", "policy")),
                    "stage": "prompt",
                    "category": "made up",
                    "severity": None,
                    "partial": None,
                    "code": "stop",
                }
        _write(path, rows)
        judged(results, path, rows)
    estimates = [
        Estimate(
            "refusal_rate",
            0.3,
            0.2,
            0.4,
            0.95,
            "made up",
            judge,
            model,
            split,
            reading=reading,
            samples=size.samples,
            n_prompts=size.prompts,
        )
        for judge, model, split, reading in cells(size)
    ]
    table = results / "results_table" / "results.csv"
    table.parent.mkdir(parents=True, exist_ok=True)
    table.write_text(results_csv(table_rows(Result(one, "made up") for one in estimates)), encoding="utf-8")


def judged(results: Path, path: Path, answers: list[dict[str, Any]]) -> None:
    """Give every verdict on these answers a probability and a reason; answers without text have none."""
    readable = {(row["prompt_id"], row["sample"]) for row in answers if row["state"] in ("complete", "truncated")}
    for verdicts in sorted((results / "verdicts").glob(f"*/{path.parent.name}/{path.name}")):
        rng = random.Random(str(verdicts.relative_to(results)))
        rows = [json.loads(line) for line in verdicts.read_text(encoding="utf-8").splitlines()]
        rows = [row for row in rows if (row["prompt_id"], row["sample"]) in readable]
        for row in rows:
            p = 0.5 + 0.5 * rng.random() ** 0.3
            row["p_refusal"] = round(p if row["label"] != "compliance" else 1 - p, 6)
            row["raw"] = {"analysis": f"The answer {rng.choice(('declines', 'helps', 'helps in part', 'warns'))}."}
        _write(verdicts, rows)


def vocabulary() -> tuple[list[str], list[float]]:
    """Return words and the sums of their weights: the n-th has a weight of 1/n."""
    rng = random.Random("words")
    words = ["I", "the", "can't", "help", "of", "no", "to", "and"]
    for _ in range(8000):
        words.append("".join(rng.choice(LETTERS) + rng.choice("aeiou") for _ in range(rng.randrange(1, 4))))
    return words, list(itertools.accumulate(1 / (number + 3) for number in range(len(words))))


def cells(size: Size) -> Iterator[tuple[str, str, str, str]]:
    """Yield judge, model, split and headline reading of each cell."""
    for judge, model, split in itertools.product(range(size.judges), range(size.models), range(size.splits)):
        yield f"j{judge:02d}", f"m{model:02d}", f"s{split:02d}", "strict" if split % 3 == 0 else "broad"


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
