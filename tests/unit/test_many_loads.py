"""Many loads of a stand-in engine, whose replies often come together: none hangs (see `many_loads.py`)."""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from env_files import ENVS, PYTHONS
from many_loads import PACKAGES

PROGRAM = Path(__file__).with_name("many_loads.py")


def none_hangs(python: str | Path, loads: int) -> None:
    command = [str(python), str(PROGRAM), "--loads", str(loads)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr[-2000:]
    reported = json.loads(done.stdout)
    print(reported)
    assert (reported["loads"], reported["hung"], reported["failed"]) == (loads, 0, {})


def locked(names: tuple[str, ...]) -> str:
    """Return the pins of these packages, with their hashes, out of the workflow environment's lock."""
    lock = (ENVS / "workflow.txt").read_text(encoding="utf-8")
    pins = [re.search(rf"^{re.escape(name)}==.*\n(?: .*\n)*", lock, re.MULTILINE) for name in names]
    assert all(pins), names
    return "".join(pin[0] for pin in pins if pin)


def environment(version: str, folder: Path) -> Path:
    """Return this version's Python with what the program needs; skip the test where there is none."""
    if version == ".".join(platform.python_version_tuple()[:2]):
        return Path(sys.executable)
    found = shutil.which(f"python{version}")
    if found is None or subprocess.run([found, "--version"], capture_output=True, check=False).returncode:
        pytest.skip(f"there is no python{version} on this machine's PATH")
    subprocess.run([found, "-I", "-m", "venv", str(folder)], check=True)
    pins, python = folder / "pins.txt", folder / "bin" / "python"
    pins.write_text(locked(PACKAGES), encoding="utf-8")
    pip = [str(python), "-I", "-m", "pip", "install", "--quiet", "--no-deps", "--requirement", str(pins)]
    subprocess.run(pip, check=True)
    return python


def test_of_some_dozens_of_loads_none_hangs() -> None:
    none_hangs(sys.executable, 60)


def test_the_program_needs_no_other_packages_than_it_names() -> None:
    """Other Pythons have these alone, and only the soak asks them."""
    asked = (
        "import importlib.metadata, json, sys\n"
        "before, found = set(sys.modules), importlib.metadata.packages_distributions()\n"
        "import many_loads\n"
        "modules = {module.partition('.')[0] for module in set(sys.modules) - before}\n"
        "print(json.dumps([name for module in modules for name in found.get(module, ())]))"
    )
    paths = os.pathsep.join([str(PROGRAM.parents[2] / "scripts"), str(PROGRAM.parent)])
    environment = os.environ | {"PYTHONPATH": paths}
    done = subprocess.run([sys.executable, "-c", asked], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    needed = {re.sub("[-_.]+", "-", name).lower() for name in json.loads(done.stdout)}
    assert needed and needed <= set(PACKAGES)


@pytest.mark.soak
@pytest.mark.parametrize("version", PYTHONS)
def test_of_a_thousand_loads_none_hangs_on_any_python(version: str, tmp_path: Path) -> None:
    none_hangs(environment(version, tmp_path / "environment"), 1000)
