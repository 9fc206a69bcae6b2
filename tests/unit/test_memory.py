"""What a job may take of the machine's memory: as much as is free, and no more than its control groups allow."""

from pathlib import Path

import pytest

from refusal_eval.core.memory import count_memory_kills, main_memory

GIB = 2**30


@pytest.fixture
def meminfo(tmp_path: Path) -> Path:
    path = tmp_path / "meminfo"
    path.write_text(f"MemTotal:  {1024 * 2**20} kB\nMemFree:  5 kB\nMemAvailable:  {800 * 2**20} kB\n")
    return path


def group(folder: Path, limit: object, used: int, names: tuple[str, str, str], cached: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in zip(
        names, (limit, used, f"anon 7\n{'total_' * ('usage' in names[1])}inactive_file {cached}"), strict=True
    ):
        (folder / name).write_text(f"{value}\n")


TWO = ("memory.max", "memory.current", "memory.stat")
ONE = ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat")


def reported(tmp_path: Path, lines: str) -> Path:
    path = tmp_path / "cgroup"
    path.write_text(lines)
    return path


def test_without_control_groups_all_that_is_free_may_be_taken(tmp_path: Path, meminfo: Path) -> None:
    assert main_memory(meminfo, tmp_path / "none", tmp_path) == (1024 * GIB, 800 * GIB)


def test_a_slurm_jobs_limit_counts_wherever_above_it_stands(tmp_path: Path, meminfo: Path) -> None:
    group(tmp_path / "slurm" / "job_7", 64 * GIB, 10 * GIB, TWO, cached=6 * GIB)
    group(tmp_path / "slurm" / "job_7" / "step_0", "max", 10 * GIB, TWO)
    groups = reported(tmp_path, "0::/slurm/job_7/step_0\n")
    assert main_memory(meminfo, groups, tmp_path) == (1024 * GIB, 60 * GIB)


def test_the_older_control_groups(tmp_path: Path, meminfo: Path) -> None:
    group(tmp_path / "memory" / "slurm" / "job_7", 32 * GIB, 1 * GIB, ONE, cached=GIB)
    groups = reported(tmp_path, "5:cpu,cpuacct:/slurm\n4:memory:/slurm/job_7\n")
    assert main_memory(meminfo, groups, tmp_path) == (1024 * GIB, 32 * GIB)


def test_a_container_shows_its_limit_at_the_top(tmp_path: Path, meminfo: Path) -> None:
    group(tmp_path, 16 * GIB, 20 * GIB, TWO)
    groups = reported(tmp_path, "0::/docker/of-the-host\n")
    assert main_memory(meminfo, groups, tmp_path)[1] == 0


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("0::/slurm/job_7/step_0", "slurm/job_7/step_0/memory.events"),
        ("0::/docker/of-the-host", "memory.events"),
        ("4:memory:/slurm/job_7", "memory/slurm/job_7/memory.oom_control"),
    ],
)
def test_what_the_kernel_killed_for_lack_of_memory_is_known(tmp_path: Path, line: str, file: str) -> None:
    groups = reported(tmp_path, f"{line}\n")
    assert count_memory_kills(groups, tmp_path) == 0
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text("low 4\noom_kill_disable 0\noom 5\noom_kill 3\n")
    assert count_memory_kills(groups, tmp_path) == 3
