"""Kill loads of a hosted engine at random points: what was billed must be in the journal, and that in the budget.

`python tests/money.py --kills 1000` runs studies one after the other, each of some requests to the stub provider, which
also is busy, breaks connections and bills what nobody can read. Each load is the real one of `scripts/execute.py`, in a
process of its own, until it is killed or ends. After each the journal is read here, by code of this file alone.
"""

import argparse
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1] / "scripts")]
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:2])  # of the processes that are started from here

import execute
from stub_provider import StubProvider

from refusal_eval.ask.keys import NEUTRAL_SAMPLING
from refusal_eval.ask.requests import Ask, RequestSettings, read_requests, write_requests
from refusal_eval.ask.store import StoreReader
from refusal_eval.config.kinds import ENGINES
from refusal_eval.core.errors import UserError
from refusal_eval.engines import running_jobs
from refusal_eval.engines.load_plan import LoadPlan
from refusal_eval.features.hosted.journal import journal_path
from refusal_eval.features.hosted.price import Price
from refusal_eval.weights.engine_file import describe_engine

KEY, KEY_VARIABLE = "sk-stub-money", "STUB_MONEY_KEY"
PRICE = Price.model_validate({"input": 3, "cached": 0.3, "output": 15, "date": "2026-11-01"})
FAULTS = {"429": 0.04, "500": 0.02, "504": 0.02, "529": 0.02, "reset before": 0.02, "reset after": 0.03}
FAULTS |= {"reset within": 0.03, "types": 0.01, "cut": 0.01, "bytes": 0.01, "headers": 0.01}
MAX_TOKENS, IN_FLIGHT, SAMPLES = 40, 12, 2
KEPT = ("answer", "refusal", "declared", "blocked")  # replies that are stored
ENDED_BY_ITSELF, STOPPED = 3, 4  # exit codes of a load that says why it ends, and of one that was stopped by SIGTERM


@dataclass
class Hosted:
    """A study of one model, as `scripts/execute.py` meets it."""

    folder: Path
    kind: str
    address: str
    budget: Decimal | None
    prompts: int
    name: str = "study"
    in_flight: int = IN_FLIGHT

    def prepare(self) -> None:
        """Write its requests."""
        plan = self.plan()
        sampling = {**NEUTRAL_SAMPLING, "max_tokens": MAX_TOKENS, "temperature": 1.0}
        settings = RequestSettings(plan.engine_id, dict(plan.identity), sampling, "seeded")
        asks = [
            Ask(f"p{i}", [{"role": "user", "content": f"{self.name}: question {i}, naïvely?"}], self._samples(i))
            for i in range(self.prompts)
        ]
        write_requests(self.requests, asks, settings, None)

    def _samples(self, prompt: int) -> list[tuple[int, int]]:
        return [(sample, 1000 * prompt + sample) for sample in range(SAMPLES)]

    @property
    def requests(self) -> Path:
        return self.folder / "requests" / "model" / "split.jsonl"

    def plan(self) -> LoadPlan:
        entry = ENGINES.entry(
            {
                "kind": self.kind,
                "address": self.address,
                "served": "large",
                "key_variable": KEY_VARIABLE,
                "as_of": "2026-11-01",
                "price": PRICE.model_dump(mode="json"),
                "timeout": 5,
            }
        )
        config = {
            "engine_entries": {"far": entry.model_dump(mode="json")},
            "determinism": "seeded",
            "requests_in_flight": self.in_flight,
            "failure_limit": 0.5,
            "store_dir": str(self.folder / "store"),
            "cache_dir": str(self.folder / "cache"),
            "study": self.name,
            "budget": None if self.budget is None else float(self.budget),
        }
        described = describe_engine("far", entry, None, None, config["cache_dir"])
        return LoadPlan.of_study(config, described, [], self.folder)

    def missing(self) -> set[str]:
        """Return the keys of its requests that the store lacks."""
        file = read_requests(self.requests)
        return set(StoreReader(self.folder / "store", file.header["engine_id"]).missing(file.keys()))

    def journal(self) -> dict[str, Decimal]:
        """Return what its journal says: what is spent, and what is reserved."""
        open_ones: dict[str, Decimal] = {}
        spent = Decimal(0)
        path = journal_path(self.folder / "store", self.name)
        for text in path.read_bytes().splitlines() if path.exists() else ():
            try:
                line = json.loads(text)
            except ValueError:  # cut off by a kill
                continue
            if line["what"] == "reserved":
                open_ones[line["id"]] = Decimal(line["amount"])
            else:
                del open_ones[line["id"]]
                spent += Decimal(line["amount"])
        return {"spent": spent, "reserved": sum(open_ones.values(), Decimal(0))}


def load(study: Hosted) -> None:
    """Execute what the store of a study lacks: the process that is killed."""
    running_jobs.SETTLE_SECONDS = 0.0  # no other job starts at the same moment
    folder = study.folder
    with open(folder / "said.log", "a") as said:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
        try:
            execute.main([str(study.requests)], str(folder / "receipts" / "0.json"), folder / "log", 0, study.plan())
        except UserError as error:
            print(error, flush=True)
            os._exit(ENDED_BY_ITSELF)
        except SystemExit:
            os._exit(STOPPED)
        except BaseException:
            traceback.print_exc()
            said.flush()
            os._exit(1)


def bill(entries: list[dict[str, Any]], prices: Price) -> Decimal:
    """Return what a provider asks for these requests."""
    price = {name: Decimal(str(getattr(prices, name))) / 1_000_000 for name in ("input", "cached", "output")}
    total = Decimal(0)
    for entry in entries:
        tokens: Mapping[str, int] = entry["billed"]
        total += (tokens["input"] - tokens["cached"]) * price["input"]
        total += tokens["cached"] * price["cached"] + tokens["output"] * price["output"]
    return total


@dataclass
class Tally:
    """What was seen."""

    kills: int = 0
    studies: int = 0
    complete: int = 0
    ended_by_budget: int = 0
    requests: int = 0
    rejected: int = 0
    entries: int = 0
    forms: Counter[str] = field(default_factory=Counter)
    closest: Decimal = Decimal(10)  # the smallest share of the budget that was left
    billed: Decimal = Decimal(0)
    spent: Decimal = Decimal(0)
    reserved: Decimal = Decimal(0)


def processes() -> Any:
    """Return what starts processes, from one that has imported all of this."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["money", "aiohttp"])
    return context


def disturbed(kills: int, seed: int, folder: Path, context: Any = None) -> Tally:
    """Run studies, killing loads, until there were so many kills; return what was seen.

    Raises:
        AssertionError: if more was billed than is in the journal, or more is in it than the budget.
    """
    chance, tally = random.Random(seed), Tally()
    context = context or processes()
    os.environ[KEY_VARIABLE] = KEY
    options = {"blocked": 0.15, "refused": 0.1, "cached": 0.3, "latency": 0.03, "faults": FAULTS, "retry_after": "0"}
    with StubProvider(key=KEY, varies=True, bytes_per_token=1.0, bills_blocks=True, **options) as stub:
        while tally.kills < kills:
            tally.studies += 1
            name = f"study{tally.studies}"
            # Some budgets are enough, some are not.
            budget = Decimal(chance.randint(3, 40)) / 1000
            kind, prompts = chance.choice(["openai", "anthropic"]), chance.randint(10, 30)
            study = Hosted(folder / name, kind, stub.address, budget, prompts, name)
            study.prepare()
            before = tally.kills
            _run(study, stub, kills, chance, tally, context)
            if tally.kills // 100 > before // 100:
                print(f"{tally.kills} kills in {tally.studies} studies", flush=True)
            tally.requests += prompts * SAMPLES
        tally.entries = len(stub.entries)
        tally.forms = Counter(entry["form"] for entry in stub.entries)
    return tally


def _run(study: Hosted, stub: StubProvider, kills: int, chance: random.Random, tally: Tally, context: Any) -> None:
    """Run one study until it is complete, or its budget is spent."""
    first = len(stub.entries)
    ended = False
    while not ended:
        before, lacking = len(stub.entries), len(study.missing())
        process = context.Process(target=load, args=(study,))
        process.start()
        if tally.kills < kills:
            _kill_at_random(process, stub, chance)
        process.join()
        killed = process.exitcode in (-signal.SIGKILL, -signal.SIGTERM, STOPPED)
        tally.kills += killed
        stub.settled()
        billed, journal = bill(stub.entries[first:], PRICE), study.journal()
        total = journal["spent"] + journal["reserved"]
        assert study.budget is not None
        assert billed <= total <= study.budget, (study, billed, journal)
        tally.closest = min(tally.closest, 1 - total / study.budget)
        if not killed:
            # What came whole is stored, also what was in flight when the load ended.
            new = stub.entries[before:]
            delivered = sum(entry["kind"] in KEPT and entry["fault"] is None for entry in new)
            unusable = sum(entry["form"] in ("types", "bytes") for entry in new)  # some are stored as such
            stored = lacking - len(study.missing())
            assert delivered <= stored <= delivered + unusable, (study, stored, delivered, unusable)
            said = (study.folder / "said.log").read_text()
            assert process.exitcode in (0, ENDED_BY_ITSELF), said
            ended = process.exitcode == 0 or "`budget` leaves no room" in said.splitlines()[-1]
            tally.complete += process.exitcode == 0
            tally.ended_by_budget += process.exitcode != 0 and ended
            if process.exitcode == 0:
                # An error that cannot be read, cut off or no text, is a request that the server does not take.
                receipt = json.loads((study.folder / "receipts" / "0.json").read_text())
                assert study.missing() == {row["key"] for row in receipt["rejected"]}, said
                tally.rejected += len(receipt["rejected"])
            tally.billed, tally.spent = tally.billed + billed, tally.spent + journal["spent"]
            tally.reserved += journal["reserved"]


def _kill_at_random(process: Any, stub: StubProvider, chance: random.Random) -> None:
    """Kill or stop a load after some time, or when some more requests have arrived, unless it has ended."""
    by_time = chance.random() < 0.5
    until = time.monotonic() + (chance.uniform(0, 0.5) if by_time else 5)
    arrived = stub.received + chance.randint(0, 40)
    while process.is_alive() and time.monotonic() < until and (by_time or stub.received < arrived):
        time.sleep(0.001)
    if chance.random() < 0.8:
        process.kill()
    else:
        process.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    os.environ["PYTHONWARNINGS"] = "ignore:resource_tracker:UserWarning"  # of what killed processes leave
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="money-") as folder:
        print(disturbed(arguments.kills, arguments.seed, Path(folder)))
    print(f"billed <= journal <= budget after each kill; {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
