"""Whether Snakemake still needs the correction in workflow/ancient_inputs.py."""

import subprocess
import sys
from pathlib import Path

from project import planned_jobs

CELLS_AND_A_BATCH = """
rule all:
    input: expand("answers/{cell}", cell=["a", "b"])

rule receipt:
    input: expand("requests/{cell}", cell=["a", "b"])
    output: "receipt"
    shell: "touch {output}"

rule answers:
    input: "requests/{cell}", ancient("receipt")
    output: "answers/{cell}"
    shell: "cp {input[0]} {output}"
"""


def test_snakemake_itself_forgets_a_changed_cell_beside_its_batch(tmp_path: Path) -> None:
    def run(*arguments: str) -> dict[str, int]:
        command = [sys.executable, "-m", "snakemake", "--cores", "1", "--workflow-profile", "none", *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return planned_jobs(done.stdout + done.stderr)

    (tmp_path / "Snakefile").write_text(CELLS_AND_A_BATCH)
    (tmp_path / "requests").mkdir()
    for cell in "ab":
        (tmp_path / "requests" / cell).write_text("one")
    run()
    (tmp_path / "requests" / "a").write_text("two")
    planned = run("-n")
    assert planned["receipt"] == 1
    assert "answers" not in planned, "Snakemake issue 4166 is corrected: take workflow/ancient_inputs.py away"
