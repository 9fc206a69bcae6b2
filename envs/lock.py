#!/usr/bin/env python3
"""Resolve the `*.in` files of this folder into full locks (`make lock`).

    python3 envs/lock.py                 all locks; pins stay as they are unless an `.in` file forces a change
    python3 envs/lock.py --upgrade       all locks, every package at the newest version that fits
    python3 envs/lock.py engine-cpu      one lock

What it does, for each lock:

1. `uv pip compile --universal` resolves for every Python version and platform at once. uv and packaging are installed
   into a throw-away environment, so neither has to be on the machine.
2. The result is cut down to Linux and to the Python versions and machines of the lock: a package whose marker is never
   true there goes, a marker that is always true there goes too. One version per package wherever one exists, so that
   numbers do not depend on the Python version.
3. engine-cpu only: torch becomes its `+cpu` build, which PyPI does not have, and packages that serve GPUs go. That is
   why setup.py installs locks with `--no-deps`. uv cannot see that build: its pin and hashes are copied from
   engine-cpu-first.txt, which people write.
4. workflow only: the same pins are written into workflow.yaml, the environment of `snakemake --sdm conda`.

Known vulnerabilities are not looked up. Where an audit service can be reached, `pip-audit --disable-pip -r
envs/NAME.txt` does that for each lock.

dev is resolved under the pins of workflow, so workflow comes first. After an upgrade, bring sizes.json up to date.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOOLS = ("uv==0.13.9", "packaging==26.3")
PYTHON_VERSIONS = ("3.11", "3.12", "3.13")
CONDA_PYTHON = "3.11"  # of the environment for conda: the version that this workflow has been run with


@dataclass(frozen=True)
class Lock:
    """How one `.in` file becomes one lock."""

    name: str
    machines: tuple[str, ...] = ("x86_64", "aarch64")
    constraints: str | None = None
    overrides: str | None = None
    left_out: str | None = None  # regular expression over package names
    local_builds: tuple[tuple[str, str], ...] = ()  # (pin as resolved, file with the pin as installed and its hashes)
    conda: bool = False  # whether conda is to make the environment as well


LOCKS = {
    lock.name: lock
    for lock in (
        Lock("workflow", conda=True),
        Lock("dev", constraints="workflow.txt"),
        Lock(
            "engine-cpu",
            overrides="engine-cpu-overrides.in",
            left_out=r"nvidia-.*|cuda-.*|triton|torchvision|torchaudio|torchcodec",
            local_builds=(("torch==2.13.0", "engine-cpu-first.txt"),),
        ),
        Lock("engine-cuda", machines=("x86_64",)),
        Lock("docs"),
    )
}


def main() -> None:
    """Read the command line, make a throw-away environment with the tools if need be, and write the locks."""
    parser = argparse.ArgumentParser(description="Resolve envs/*.in into full locks.")
    parser.add_argument("names", nargs="*", help=f"locks to write, default all: {', '.join(LOCKS)}")
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions that fit")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in LOCKS]
    if unknown:
        parser.error(f"no such lock: {', '.join(unknown)} (there are {', '.join(LOCKS)})")
    if "REFUSAL_EVAL_LOCK_TOOLS" not in os.environ:
        sys.exit(run_again_with_tools())
    names = [name for name in LOCKS if not options.names or name in options.names]
    for name in names:
        write_lock(LOCKS[name], upgrade=options.upgrade)


def run_again_with_tools() -> int:
    """Run this script again inside a throw-away environment that has uv and packaging; return its exit code."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", *TOOLS], check=True)
        environment = {**os.environ, "REFUSAL_EVAL_LOCK_TOOLS": str(Path(folder) / "bin")}
        return subprocess.run([python, __file__, *sys.argv[1:]], env=environment, check=False).returncode


def write_lock(lock: Lock, upgrade: bool) -> None:
    """Resolve one lock and replace its file."""
    path = HERE / f"{lock.name}.txt"
    blocks = [kept for block in split_blocks(resolve(lock, upgrade)) if (kept := adapt(block, lock))]
    path.write_text(header(lock) + "".join(blocks), encoding="utf-8")
    if lock.conda:
        path.with_suffix(".yaml").write_text(conda_environment(path), encoding="utf-8")
    print(f"{path.name}: {len(blocks)} pins", flush=True)


def resolve(lock: Lock, upgrade: bool) -> str:
    """Let uv resolve the `.in` file; an existing lock is copied as the output file, whose pins uv prefers to keep."""
    uv = Path(os.environ["REFUSAL_EVAL_LOCK_TOOLS"]) / "uv"
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "lock.txt"
        if (HERE / f"{lock.name}.txt").exists():
            shutil.copy(HERE / f"{lock.name}.txt", output)
        command: list[str | Path] = [uv, "pip", "compile", f"{lock.name}.in", "--output-file", output, "--quiet"]
        command += ["--no-config", "--no-header", "--universal", "--python-version", PYTHON_VERSIONS[0]]
        command += ["--fork-strategy", "fewest", "--generate-hashes"]
        command += ["--constraints", lock.constraints] if lock.constraints else []
        command += ["--overrides", lock.overrides] if lock.overrides else []
        command += ["--upgrade"] if upgrade else []
        # In this folder, and with relative names, so that the "via" comments hold no path of the machine.
        subprocess.run(command, cwd=HERE, check=True, stdout=subprocess.DEVNULL)
        return output.read_text(encoding="utf-8")


def split_blocks(text: str) -> list[str]:
    """Split a requirements file into its pins, each with the indented hash and comment lines that follow it."""
    return re.findall(r"^\S.*\n(?:[ \t]+.*\n?)*", text, flags=re.MULTILINE)


def adapt(block: str, lock: Lock) -> str | None:
    """Return the pin as the lock keeps it, or None if it is not needed on any platform of the lock."""
    first, rest = block.split("\n", 1)
    pin, _, marker = (part.strip() for part in first.removesuffix("\\").partition(";"))
    if lock.left_out and re.fullmatch(lock.left_out, pin.partition("==")[0]):
        return None
    needed = [marker_holds(marker, python, machine) for python in PYTHON_VERSIONS for machine in lock.machines]
    if not any(needed):
        return None
    if pin in dict(lock.local_builds):
        build = split_blocks((HERE / dict(lock.local_builds)[pin]).read_text(encoding="utf-8"))[-1]
        return build + "".join(line for line in rest.splitlines(keepends=True) if "--hash=" not in line)
    line = pin if all(needed) else f"{pin} ; {marker}"
    return f"{line}{' ' + chr(92) if first.endswith(chr(92)) else ''}\n{rest}"


def conda_environment(lock: Path) -> str:
    """Return a lock as an environment for conda: Python and pip from conda-forge, the pins for pip.

    The pins stand in the file itself, as Snakemake copies it to another folder, and makes the environment again when it
    changes. Their hashes do not: Snakemake writes the file's content beside every output, and hashes are 250 kB.
    """
    pins = re.findall(r"^([^\s#].*?)(?: \\)?$", lock.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return (
        f"# {lock.stem} for conda: the environment of all rules under `snakemake --sdm conda`.\n"
        "# Written by lock.py with the lock itself: change the .in file and run `make lock`.\n"
        "channels:\n  - conda-forge\n  - nodefaults\n"
        f"dependencies:\n  - python={CONDA_PYTHON}\n  - pip\n  - pip:\n" + "".join(f"      - {pin}\n" for pin in pins)
    )


def marker_holds(marker: str, python: str, machine: str) -> bool:
    """Whether a marker is true for CPython of that version on Linux on that machine; an empty marker always is."""
    from packaging.markers import Marker  # only the throw-away environment has it

    environment = {
        "implementation_name": "cpython",
        "os_name": "posix",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "python_full_version": f"{python}.0",
        "python_version": python,
        "sys_platform": "linux",
    }
    return not marker or Marker(marker).evaluate(environment)


def header(lock: Lock) -> str:
    """Say at the top of a lock what it is for and how to change it."""
    return (
        f"# Full lock of {lock.name}.in for CPython {PYTHON_VERSIONS[0]} to {PYTHON_VERSIONS[-1]} on Linux, "
        f"{' and '.join(lock.machines)}.\n"
        "# Written by lock.py: change the .in file and run `make lock`. Installed with `--require-hashes`.\n\n"
    )


if __name__ == "__main__":
    main()
