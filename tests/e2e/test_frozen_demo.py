"""The demo on a store that an earlier version wrote: nothing is executed again, every result is the same, and a script
written from docs/ alone finds the same numbers in its answers.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from frozen_results import FROZEN, called_peoples, differences, thawed
from project import ROOT
from recomputed import check_all

pytestmark = [pytest.mark.full, pytest.mark.timeout(30 * 60)]


def test_a_store_of_an_earlier_version_is_read_without_one_request_executed_again(tmp_path: Path) -> None:
    for archive in ("demo.tar.xz", "demo_store.tar.xz"):
        thawed(FROZEN / archive, tmp_path / "frozen")
    folders = [f"store_dir={tmp_path / 'frozen' / 'store'}", f"cache_dir={ROOT / '.cache'}"]
    run = subprocess.run(
        [sys.executable, "-m", "snakemake", "-s", ROOT / "Snakefile", "--cores", "2", "--config", *folders],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-6000:]
    results = tmp_path / "results" / "demo"
    receipts = [json.loads(path.read_text()) for path in results.rglob("receipts/**/*.json")]
    assert len(receipts) == 1 and all("engine" not in receipt for receipt in receipts), "no engine started"
    assert list(differences(tmp_path / "frozen" / "results", results)) == []
    assert list(called_peoples(results, ("made-up-answers", "Made-up answers"))) == []
    assert {"refusal_rate", "judge_kappa", "judges_alpha", "rate_difference", "odds_ratio"} <= check_all(results)
