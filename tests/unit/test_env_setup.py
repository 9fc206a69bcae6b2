"""Tests of the script that installs the locks, and of the Makefile around it. Nothing is installed: pip is played."""

import ast
import errno
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import pytest
from env_files import ENVS, PYTORCH_CPU_INDEX, REPOSITORY, DiskUsage, load
from wheel_files import write_wheel

# --- setup.py: what it would do ------------------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make a repository with nothing in it but a copy of envs/, so that the real environments stay out of it."""
    shutil.copytree(ENVS, tmp_path / "repository" / "envs", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "repository"


@pytest.fixture
def setup(root: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import setup.py of that repository, as on a machine without an NVIDIA driver."""
    module = load(root / "envs" / "setup.py")
    monkeypatch.setattr(module, "NVIDIA_DRIVER_FILE", root / "no-driver")
    monkeypatch.setattr(module, "choose_engine", lambda variables: "cpu")
    return module


def pip_variables(**more: str) -> dict[str, str]:
    """Return an environment in which pip has no index, no configuration and no extra source of wheels."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    return {**variables, "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", **more}


def call(root: Path, *arguments: str, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Call setup.py as a user does."""
    command = [sys.executable, str(root / "envs" / "setup.py"), *arguments]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


def test_print_names_pytorchs_index_where_pip_has_no_cpu_wheel(root: Path) -> None:
    result = call(root, "engine", "--engine", "cpu", "--print", variables=pip_variables())
    assert result.returncode == 0, result.stderr
    with_index = [line for line in result.stdout.splitlines() if PYTORCH_CPU_INDEX in line]
    assert len(with_index) == 1
    # That index serves torch and nothing else.
    first = root / "envs" / "engine-cpu-first.txt"
    assert with_index[0].endswith(f"--extra-index-url {PYTORCH_CPU_INDEX} --requirement {first}")
    assert re.findall(r"^\w\S*", first.read_text(encoding="utf-8"), flags=re.MULTILINE) == ["torch==2.13.0+cpu"]
    assert not (root / ".venv").exists()


def test_print_names_no_index_where_pip_has_the_cpu_wheel(root: Path, tmp_path: Path) -> None:
    write_wheel(tmp_path / "wheels", "torch", "2.13.0+cpu", {})
    variables = pip_variables(PIP_FIND_LINKS=str(tmp_path / "wheels"))
    result = call(root, "engine", "--engine", "cpu", "--print", variables=variables)
    assert result.returncode == 0, result.stderr
    assert "--requirement" in result.stdout
    assert "://" not in result.stdout


def test_pip_takes_wheels_with_the_hashes_of_the_lock_and_builds_nothing_with_unpinned_tools(root: Path) -> None:
    result = call(root, "dev", "engine", "--engine", "cpu", "--print", variables=pip_variables())
    assert result.returncode == 0, result.stderr
    installs = [line for line in result.stdout.splitlines() if " -m pip " in line]
    assert len(installs) == 5
    for line in installs:
        assert "--require-hashes --only-binary :all:" in line and "--requirement " in line
        # One package is released as source only; it is built with what was installed before it, with a hash.
        from_source = "--no-binary connection-pool --no-build-isolation" in line
        assert from_source == line.endswith("/workflow.txt")
    assert installs[0].endswith("/workflow-first.txt")


def test_pip_is_asked_for_the_very_build(setup: ModuleType, tmp_path: Path) -> None:
    write_wheel(tmp_path / "plain", "torch", "2.13.0", {})
    write_wheel(tmp_path / "cpu", "torch", "2.13.0+cpu", {})
    python = Path(sys.executable)
    assert not setup.pip_offers("torch==2.13.0+cpu", python, pip_variables())
    assert not setup.pip_offers("torch==2.13.0+cpu", python, pip_variables(PIP_FIND_LINKS=str(tmp_path / "plain")))
    assert setup.pip_offers("torch==2.13.0+cpu", python, pip_variables(PIP_FIND_LINKS=str(tmp_path / "cpu")))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the CUDA lock is for x86_64")
def test_auto_takes_cuda_where_nvidia_smi_works(root: Path, tmp_path: Path) -> None:
    fake_nvidia_smi(tmp_path / "bin", exit_code=0)
    variables = pip_variables(PATH=f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    result = call(root, "engine", "--engine", "auto", "--print", variables=variables)
    assert result.returncode == 0, result.stderr
    assert "engine-cuda.txt" in result.stdout
    assert PYTORCH_CPU_INDEX not in result.stdout


def fake_nvidia_smi(folder: Path, exit_code: int) -> None:
    """Write a program of that name."""
    folder.mkdir()
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\nexit {exit_code}\n", encoding="utf-8")
    program.chmod(0o755)


def test_auto_takes_cpu_where_nvidia_smi_fails_and_no_cuda_engine_is_there(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = load(root / "envs" / "setup.py")
    monkeypatch.setattr(setup, "NVIDIA_DRIVER_FILE", tmp_path / "driver")
    fake_nvidia_smi(tmp_path / "bin", exit_code=9)
    assert setup.choose_engine({"PATH": str(tmp_path / "bin")}) == "cpu"
    assert setup.choose_engine({"PATH": str(tmp_path)}) == "cpu"
    (tmp_path / "driver").write_text("NVRM version", encoding="utf-8")
    assert setup.choose_engine({"PATH": str(tmp_path)}) == "cuda"
    (tmp_path / "driver").unlink()
    (root / ".venv" / "engine").mkdir(parents=True)
    (root / ".venv" / "engine" / "engine-kind").write_text("cuda\n", encoding="utf-8")
    assert setup.choose_engine({"PATH": str(root)}) == "cuda", "on a login node it stays"


def test_the_build_that_was_asked_for_stays_also_after_an_interruption(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = load(root / "envs" / "setup.py")
    monkeypatch.setattr(setup, "require_engine_platform", lambda kind: None)
    monkeypatch.setattr(setup, "NVIDIA_DRIVER_FILE", root / "no-driver")
    monkeypatch.setattr(setup, "pip_offers", lambda pin, python, variables: True)
    monkeypatch.setattr(setup.shutil, "disk_usage", lambda path: DiskUsage(0, 0, 10**12))

    def interrupted(*arguments: object) -> None:
        shutil.rmtree(root / ".venv" / "engine", ignore_errors=True)  # as `venv --clear` does
        raise KeyboardInterrupt

    monkeypatch.setattr(setup, "run", interrupted)
    without, driver = {"PATH": str(root)}, {"PATH": str(tmp_path / "bin")}
    fake_nvidia_smi(tmp_path / "bin", exit_code=0)
    assert setup.main(["engine"]) == 130 and setup.choose_engine(driver) == "cuda", "nobody asked for the CPU build"
    assert setup.main(["engine", "--engine", "cuda"]) == 130
    assert setup.main(["engine"]) == 130 and setup.choose_engine(without) == "cuda"
    assert setup.main(["engine", "--engine", "cpu"]) == 130
    assert setup.main(["engine"]) == 130 and setup.choose_engine(driver) == "cpu", "its driver may be too old"


def test_dev_brings_workflow_along(setup: ModuleType) -> None:
    environments = setup.plan(["dev"], "auto")
    assert [environment.name for environment in environments] == ["workflow", "dev"]
    assert len({environment.folder for environment in environments}) == 1


# --- setup.py: what it refuses -------------------------------------------------------------------------------------


def test_setup_parses_on_old_pythons_and_refuses_them(setup: ModuleType) -> None:
    ast.parse((ENVS / "setup.py").read_text(encoding="utf-8"), feature_version=(3, 7))
    for version in ((3, 9), (3, 10), (3, 14)):
        with pytest.raises(setup.SetupError, match=rf"python3\.11, .* this is Python {version[0]}\.{version[1]} "):
            setup.require_python(version)
    for version in ((3, 11), (3, 12), (3, 13)):
        setup.require_python(version)


def test_a_python_without_venv_is_reported_the_debian_package(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(setup.importlib.util, "find_spec", lambda name: None)
    assert setup.main(["workflow"]) == 1
    major, minor = sys.version_info[:2]
    assert f"apt-get install python{major}.{minor}-venv" in capsys.readouterr().err


def test_a_full_disk_is_reported_before_anything_runs(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(setup.shutil, "disk_usage", lambda path: DiskUsage(0, 0, 500 * 10**6))
    monkeypatch.setattr(setup, "run", lambda *arguments: pytest.fail("something ran"))
    assert setup.main(["workflow", "engine"]) == 1
    assert "500 MB are free" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("system", "machine", "library", "kind"),
    [
        ("Darwin", "arm64", ("", ""), "cpu"),
        ("Linux", "riscv64", ("glibc", "2.36"), "cpu"),
        ("Linux", "aarch64", ("glibc", "2.36"), "cuda"),
        ("Linux", "x86_64", ("glibc", "2.28"), "cpu"),
    ],
)
def test_a_platform_without_wheels_is_refused(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, system: str, machine: str, library: tuple[str, str], kind: str
) -> None:
    monkeypatch.setattr(setup.platform, "system", lambda: system)
    monkeypatch.setattr(setup.platform, "machine", lambda: machine)
    monkeypatch.setattr(setup.platform, "libc_ver", lambda: library)
    with pytest.raises(setup.SetupError, match="config"):
        setup.require_engine_platform(kind)


# --- setup.py: installing, with a played pip -----------------------------------------------------------------------


WORKFLOW = ["venv workflow", "pip workflow-first.txt", "pip workflow.txt"]


@pytest.fixture
def installed(setup: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the commands that ran, in short; a played venv clears its folder and leaves an interpreter there."""
    ran: list[str] = []

    def play(command: Sequence[str], environment: object, log: Path) -> None:
        if "venv" in command:
            folder = Path(command[-1])
            shutil.rmtree(folder, ignore_errors=True)
            (folder / "bin").mkdir(parents=True)
            (folder / "bin" / "python").touch()
            ran.append(f"venv {folder.name}")
        else:
            ran.append(f"pip {Path(command[-1]).name}")

    monkeypatch.setattr(setup, "run", play)
    monkeypatch.setattr(setup, "pip_offers", lambda pin, python, variables: True)
    return ran


def test_what_it_costs_is_said_before_anything_runs(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []

    def stop(*arguments: object) -> None:
        said.append(capsys.readouterr().out)
        raise setup.SetupError("far enough")

    monkeypatch.setattr(setup, "run", stop)
    assert setup.main(["workflow", "dev", "engine"]) == 1
    sizes = json.loads((ENVS / "sizes.json").read_text(encoding="utf-8"))
    for name in ("workflow", "dev", "engine-cpu"):
        assert f"downloads about {sizes[name]['download_mb']:,} MB" in said[0]
        assert f"takes about {sizes[name]['disk_mb']:,} MB of disk" in said[0]


def test_a_second_call_does_nothing(
    setup: ModuleType, installed: list[str], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert setup.main(["workflow", "dev", "engine"]) == 0
    assert installed == [*WORKFLOW, "pip dev.txt", "venv engine", "pip engine-cpu.txt"]
    assert (root / ".venv" / "engine" / "engine-kind").read_text(encoding="utf-8") == "cpu\n"
    assert (root / ".venv" / ".gitignore").read_text(encoding="utf-8") == "*\n", "git never sees them"
    capsys.readouterr()
    installed.clear()
    assert setup.main(["workflow", "dev", "engine"]) == 0
    assert installed == []
    assert capsys.readouterr().out == ""


def test_the_program_is_in_the_workflow_environment_and_finds_the_library(
    setup: ModuleType, installed: list[str], root: Path
) -> None:
    (root / "scripts").symlink_to(REPOSITORY / "scripts")
    setup.main(["workflow"])
    folder = root / ".venv" / "workflow"
    program = folder / "bin" / "refusal-eval"
    assert os.access(program, os.X_OK) and program.read_text(encoding="utf-8").startswith(f"#!{folder}/bin/python\n")
    assert not list(folder.rglob("*.pth")), "jobs of a clone that links to this environment run their own library"
    program.unlink()
    setup.main(["workflow"])
    assert program.is_file(), "an environment that was made before the program gets it, too"
    apart = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = subprocess.run([sys.executable, str(program), "--help"], capture_output=True, text=True, env=apart)
    assert run.returncode == 0 and "plan" in run.stdout


def test_environments_of_another_user_are_reported_with_their_path(
    setup: ModuleType, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def forbidden(path: Path, text: str) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(setup, "write_atomically", forbidden)
    assert setup.main(["workflow"]) == 1
    error = capsys.readouterr().err
    assert f"setup: Permission denied: {root}/.venv/" in error and "another user" not in error
    monkeypatch.setattr(setup.os, "getuid", lambda: 12345)
    assert setup.main(["workflow"]) == 1
    assert "another user: clone the repository" in capsys.readouterr().err


def test_a_current_environment_needs_no_choice_to_be_written(
    setup: ModuleType, installed: list[str], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "scripts").symlink_to(REPOSITORY / "scripts")
    assert setup.main(["workflow", "engine", "--engine", "cpu"]) == 0

    def forbidden(path: Path, text: str) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    (root / ".venv" / "engine-choice").unlink()
    monkeypatch.setattr(setup, "write_atomically", forbidden)
    assert setup.main(["workflow", "engine", "--engine", "cpu"]) == 0


@pytest.mark.parametrize("name", ["with a space", "and 'quotes'", "long" * 40])
def test_the_program_starts_in_a_clone_of_any_path(setup: ModuleType, tmp_path: Path, name: str) -> None:
    python = tmp_path / name / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    program = tmp_path / "program"
    program.write_text("\n".join([*setup.shebang(str(python)), "import sys", "print(sys.argv[1:])"]), encoding="utf-8")
    program.chmod(0o755)
    run = subprocess.run([program, "one", "two words"], capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("['one', 'two words']\n", "")


def append_comment(path: Path) -> None:
    """Change a file's hash."""
    path.write_text(path.read_text(encoding="utf-8") + "# changed\n", encoding="utf-8")


def remove_interpreter(root: Path) -> None:
    """Leave what an upgrade of the system's Python leaves."""
    (root / ".venv" / "workflow" / "bin" / "python").unlink()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        # A new workflow environment needs the tools on top again.
        (lambda root: append_comment(root / "envs/workflow.txt"), [*WORKFLOW, "pip dev.txt"]),
        (lambda root: append_comment(root / "envs/workflow-first.txt"), [*WORKFLOW, "pip dev.txt"]),
        (lambda root: append_comment(root / "envs/dev.txt"), ["pip dev.txt"]),
        (lambda root: append_comment(root / "envs/engine-cpu.txt"), ["venv engine", "pip engine-cpu.txt"]),
        (remove_interpreter, [*WORKFLOW, "pip dev.txt"]),
    ],
)
def test_a_change_installs_what_it_concerns(
    setup: ModuleType, installed: list[str], root: Path, change: Callable[[Path], None], expected: list[str]
) -> None:
    setup.main(["workflow", "dev", "engine"])
    installed.clear()
    change(root)
    assert setup.main(["workflow", "dev", "engine"]) == 0
    assert installed == expected


def test_no_environment_is_made_again_under_a_run(
    setup: ModuleType, installed: list[str], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = root / ".snakemake" / "locks" / "0.input.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    assert setup.main(["workflow"]) == 0, "what is not there is used by nobody"
    append_comment(root / "envs" / "workflow.txt")
    installed.clear()
    assert setup.main(["workflow"]) == 1 and installed == []
    assert "its jobs use the workflow environment, which would be made again" in capsys.readouterr().err
    lock.unlink()
    assert setup.main(["workflow"]) == 0 and installed == WORKFLOW


def test_another_engine_replaces_the_engine(
    setup: ModuleType, installed: list[str], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup.platform, "machine", lambda: "x86_64")
    setup.main(["engine", "--engine", "cpu"])
    installed.clear()
    setup.main(["engine", "--engine", "cuda"])
    assert installed == ["venv engine", "pip engine-cuda.txt"]
    assert (root / ".venv" / "engine" / "engine-kind").read_text(encoding="utf-8") == "cuda\n"


def test_a_moved_repository_gets_new_environments(setup: ModuleType, installed: list[str], root: Path) -> None:
    setup.main(["workflow"])
    moved = root.rename(root.with_name("moved"))
    other = load(moved / "envs" / "setup.py")
    # The programs in bin hold their absolute path.
    assert [environment.name for environment in other.without_current(other.plan(["workflow"], "auto"))] == ["workflow"]


def test_linked_environments_are_used_and_never_made_anew(
    setup: ModuleType, installed: list[str], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second clone that links to the first one's environments must not pull them away under it."""
    setup.main(["workflow"])
    shutil.copytree(root / "envs", root.with_name("other") / "envs")
    root.with_name("other").joinpath(".venv").symlink_to(root / ".venv")
    other = load(root.with_name("other") / "envs" / "setup.py")
    installed.clear()
    assert other.main(["workflow"]) == 0 and installed == []
    append_comment(root.with_name("other") / "envs" / "workflow.txt")
    capsys.readouterr()
    assert other.main(["workflow"]) == 1 and installed == []
    assert "other/.venv is a link to" in capsys.readouterr().err


def test_a_file_system_without_locks_is_no_obstacle(
    setup: ModuleType, installed: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_locks(file: object, operation: int) -> None:  # as Lustre, unless it is mounted with `flock`
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(setup.fcntl, "flock", no_locks)
    assert setup.main(["workflow"]) == 0 and installed == WORKFLOW
    assert "start no second setup meanwhile" in capsys.readouterr().out


def test_an_interrupted_installation_is_done_again(
    setup: ModuleType, installed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    played = setup.run

    def interrupted(command: Sequence[str], environment: object, log: Path) -> None:
        played(command, environment, log)
        if "pip" in command:
            raise KeyboardInterrupt

    monkeypatch.setattr(setup, "run", interrupted)
    assert setup.main(["workflow"]) == 130
    monkeypatch.setattr(setup, "run", played)
    installed.clear()
    assert setup.main(["workflow"]) == 0
    assert installed == WORKFLOW


def test_a_failure_shows_the_end_of_the_log_and_how_to_retry(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = "for i in range(40): print('line', i)\nraise SystemExit(2)"
    monkeypatch.setattr(setup, "venv_command", lambda environment: [sys.executable, "-c", script])
    assert setup.main(["workflow"]) == 1
    error = capsys.readouterr().err
    assert "line 39" in error and "line 10\n" not in error
    assert "run the same command again" in error
    assert setup.without_current(setup.plan(["workflow"], "auto"))


# --- Makefile ------------------------------------------------------------------------------------------------------


def make(*arguments: str, folder: Path = REPOSITORY) -> str:
    """Return what make prints."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    command = ["make", "--no-print-directory", *arguments]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=True).stdout


def test_help_lists_the_targets() -> None:
    text = make("help")
    for target in ("setup", "demo", "test", "test-full", "soak", "lint", "format", "schema", "lock", "clean-envs"):
        assert f"make {target} " in text


def test_arguments_and_engine_are_passed_on() -> None:
    commands = make("-n", "demo", "ARGS=-n --quiet", "ENGINE=cuda").splitlines()
    assert any(command.endswith("envs/setup.py --engine cuda workflow engine") for command in commands)
    assert commands[-1] == ".venv/workflow/bin/snakemake --cores all -n --quiet"


def test_environments_keep_their_python_unless_another_is_asked_for(tmp_path: Path) -> None:
    def python(*arguments: str) -> str:
        return shlex.split(make("-n", "setup", *arguments, folder=tmp_path))[0]

    shutil.copy(REPOSITORY / "Makefile", tmp_path)
    assert python() == "python3"
    link, base = tmp_path / ".venv" / "workflow" / "bin" / "python", tmp_path / "my python3.12"
    link.parent.mkdir(parents=True)
    link.symlink_to(base)
    assert python() == "python3", "an upgrade of the system took the interpreter away"
    base.touch()
    assert python() == str(base)
    assert python("PYTHON=python3.13") == "python3.13"
