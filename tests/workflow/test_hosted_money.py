"""What a provider billed is in the journal, and that in the budget, whenever a load is killed (see money.py)."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from hosted_study import KEY_VARIABLE, SECRET, hosted_project, started, stub, wait_until
from money import disturbed

MEGABYTES = 300
IN_FLIGHT = 64


def test_twenty_kills_lose_no_money(tmp_path: Path) -> None:
    seen = disturbed(20, 1, tmp_path)
    assert seen.kills == 20 and seen.complete > 0 and seen.ended_by_budget > 0
    assert 0 < seen.billed <= seen.spent + seen.reserved
    assert {"reset after", "504", "types"} & set(seen.forms)  # what was billed and could not be read was among it


@pytest.mark.full
def test_ten_thousand_requests_survive_five_kills_and_are_sent_once_but_for_those_in_flight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, SECRET)
    with stub(latency=0.02, blocked=0.05) as provider:
        project = hosted_project(tmp_path / "project", provider.address, prompts=1000)
        project.study(models=["gpt"], samples=5, requests_in_flight=IN_FLIGHT, budget=50)
        for kill in range(1, 6):
            run = started(project, "--nolock", "--until", "generate_hosted")
            resident = largest_until(run, lambda goal=1600 * kill: len(provider.entries) >= goal)
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()
            provider.settled()
            print(f"kill {kill} after {len(provider.entries)} requests, {resident} MB")
            assert resident < MEGABYTES
        run = started(project, "--nolock", "--until", "generate_hosted")
        resident = largest_until(run, lambda: run.poll() is not None)
        assert run.returncode == 0, (project.folder / "run.log").read_text()[-3000:]
        print(f"{provider.received} requests, {provider.most_in_flight} in flight at most, {resident} MB")
        assert resident < MEGABYTES
        assert len(provider.entries) <= 10_000 + 5 * IN_FLIGHT
        assert provider.most_in_flight <= IN_FLIGHT
    assert project.missing("requests") == set()


def largest_until(run: "subprocess.Popen[bytes]", done: Callable[[], object]) -> int:
    """Wait; return the most memory that a process of the run had meanwhile, in MB."""
    largest = 0

    def look() -> bool:
        nonlocal largest
        for process in [*(whole := psutil.Process(run.pid)).children(recursive=True), whole]:
            try:
                largest = max(largest, process.memory_info().rss)
            except psutil.NoSuchProcess:
                continue
        return bool(done())

    wait_until(look, 300.0)
    return largest // 10**6
