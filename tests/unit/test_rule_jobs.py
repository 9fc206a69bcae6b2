"""Jobs that run without Snakemake find what they would find in a job of Snakemake."""

from types import SimpleNamespace

from refusal_eval.tools.verify.rule_jobs import Job, run

SCRIPT = """
import gc, json, os
told = {"threads": os.environ.get("OPENBLAS_NUM_THREADS"), "gc": gc.isenabled(), "asked": snakemake.params.asked}
gc.disable()
open(snakemake.output[0], "w").write(json.dumps(told))
"""


def test_each_job_has_one_thread_and_is_not_told_what_the_one_before_turned_off(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "7")
    (tmp_path / "script.py").write_text(SCRIPT)
    jobs = [
        Job(
            f"r{n}", str(tmp_path / "script.py"), SimpleNamespace(output=[f"{n}.json"], params=SimpleNamespace(asked=n))
        )
        for n in range(2)
    ]
    assert [done.rule for done in run([jobs], tmp_path, 1)] == ["r0", "r1"]
    for n in range(2):
        assert (tmp_path / f"{n}.json").read_text() == f'{{"threads": "1", "gc": true, "asked": {n}}}'
