#!/usr/bin/env python3
"""Create the project's environments from the locks in this folder.

    python3 envs/setup.py workflow engine     what `make setup` does
    python3 envs/setup.py dev                 the workflow environment with the tools for tests and lint on top
    python3 envs/setup.py docs               what makes a site of the pages (`make docs`)
    python3 envs/setup.py engine --engine cuda
    python3 envs/setup.py engine --print      show the commands, do nothing

`.venv/workflow` runs Snakemake and has no torch. `.venv/engine` holds vLLM: the CUDA build where there is an NVIDIA
driver, else the CPU build; `.venv/engine/engine-kind` says which ("cuda" or "cpu"). `.venv/engine-choice` keeps what
`--engine` asked for.

An environment carries a stamp, written last: a second call compares it and is done at once; after an interruption or
a change of the lock, of the Python version or of the repository's place, the environment is made again. Downloads stay
in pip's cache.

Needs nothing but the standard library. The file has to parse on old Python versions too, so that they get a clear
message and not a syntax error.
"""

from __future__ import annotations  # a SyntaxError here means that Python 3.11 or newer is needed

import argparse
import contextlib
import fcntl
import hashlib
import importlib.util
import json
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ENVS = Path(__file__).resolve().parent
ROOT = ENVS.parent
VENVS = ROOT / ".venv"
CHOICE = VENVS / "engine-choice"

SUPPORTED_PYTHONS = ((3, 11), (3, 12), (3, 13))
ENGINE_MACHINES = {"cpu": ("x86_64", "aarch64"), "cuda": ("x86_64",)}
ENGINE_GLIBC = (2, 31)  # the oldest that every engine wheel runs on; without a wheel pip would build from source
SOURCE_ONLY = ("connection-pool",)  # released without wheels; built with what `*-first.txt` installs
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
PROGRAM = "refusal-eval"
NVIDIA_DRIVER_FILE = Path("/proc/driver/nvidia/version")
SECONDS_BETWEEN_PROGRESS_LINES = 10


class SetupError(Exception):
    """Something the user has to know or to change; the message says what."""


@dataclass(frozen=True)
class Environment:
    """One thing to install: a lock, and the folder it goes to."""

    name: str  # workflow, dev, engine or docs
    lock_name: str
    folder: Path
    on_top: bool = False  # installed into an environment that is there already
    engine_kind: str | None = None

    @property
    def lock(self) -> Path:
        """The file with the pins."""
        return ENVS / f"{self.lock_name}.txt"

    @property
    def first(self) -> Path:
        """The file with the pins that a step of its own needs before the lock; not every lock has one."""
        return ENVS / f"{self.lock_name}-first.txt"

    @property
    def stamp(self) -> Path:
        """The file that says what the folder holds; it exists only after a complete installation."""
        return self.folder / f"setup-{self.name}.json"

    @property
    def python(self) -> Path:
        """The environment's interpreter."""
        return self.folder / "bin" / "python"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    options = parse_arguments(arguments)
    signal.signal(signal.SIGTERM, stop_on_signal)  # or pip would go on alone
    try:
        require_python(sys.version_info[:2])
        environments = plan(options.names, options.engine)
        if options.print:
            print_commands(environments)
        else:
            keep_choice(options.engine, environments)
            set_up(environments)
            if any(environment.name == "workflow" for environment in environments):
                install_program()
    except SetupError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        words = ": ".join(filter(None, (error.strerror or str(error), error.filename)))
        print(f"setup: {words}{advice(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("setup: interrupted; run the same command again, downloads are kept in pip's cache", file=sys.stderr)
        return 130
    return 0


def advice(error: OSError) -> str:
    """Return what to do about a file that we may not write, as when two people share a clone."""
    if not isinstance(error, PermissionError) or not VENVS.exists() or VENVS.stat().st_uid == os.getuid():
        return ""
    return "; the environments belong to another user: clone the repository for yourself"


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Create the environments in .venv from the locks in envs.")
    parser.add_argument("names", nargs="+", choices=("workflow", "dev", "engine", "docs"), help="what to install")
    parser.add_argument("--engine", choices=("auto", "cpu", "cuda"), default="auto", help="build of vLLM")
    parser.add_argument("--print", action="store_true", help="print the commands and do nothing")
    return parser.parse_args(arguments)


def stop_on_signal(number: int, frame: object) -> None:
    """Turn a signal into an exception, so that the running child is ended too."""
    raise KeyboardInterrupt


# --- What to install ---------------------------------------------------------------------------------------------


def plan(names: Sequence[str], engine: str) -> list[Environment]:
    """Return the environments in the order of installation; dev brings workflow along, which it is installed into."""
    environments = []
    if "workflow" in names or "dev" in names:
        environments.append(Environment("workflow", "workflow", VENVS / "workflow"))
    if "dev" in names:
        environments.append(Environment("dev", "dev", VENVS / "workflow", on_top=True))
    if "engine" in names:
        kind = choose_engine(os.environ) if engine == "auto" else engine
        require_engine_platform(kind)
        environments.append(Environment("engine", f"engine-{kind}", VENVS / "engine", engine_kind=kind))
    if "docs" in names:
        environments.append(Environment("docs", "docs", VENVS / "docs"))
    return environments


def choose_engine(variables: Mapping[str, str]) -> str:
    """Choose the build of vLLM: the one that was asked for before, else CUDA where there is an NVIDIA driver, else CPU.

    A CUDA build that is installed already stays: a cluster's login node has no driver, but its GPU nodes do.
    """
    chosen = read_kind(CHOICE)
    if chosen:
        return chosen
    installed = read_kind(VENVS / "engine" / "engine-kind")
    return "cuda" if has_nvidia_driver(variables) or installed == "cuda" else "cpu"


def keep_choice(asked: str, environments: Sequence[Environment]) -> None:
    """Keep the build that was asked for, and any CUDA build, for calls that ask for none.

    Not in the environment, which is cleared before it is made again. A CPU build that nobody asked for may still give
    way to CUDA once there is a driver.
    """
    for kind in filter(None, (environment.engine_kind for environment in environments)):
        if (asked != "auto" or kind == "cuda") and read_kind(CHOICE) != kind and not VENVS.is_symlink():
            with contextlib.suppress(OSError):  # who may only use the environments has made no choice
                VENVS.mkdir(exist_ok=True)
                write_atomically(CHOICE, kind + "\n")


def has_nvidia_driver(variables: Mapping[str, str]) -> bool:
    """Whether nvidia-smi works, or the kernel module is loaded (a container may lack the program)."""
    program = shutil.which("nvidia-smi", path=variables.get("PATH", os.defpath))
    if program:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            result = subprocess.run([program, "-L"], capture_output=True, timeout=60, check=False)
            if result.returncode == 0:
                return True
    return NVIDIA_DRIVER_FILE.exists()


def read_kind(path: Path) -> str | None:
    """Return the build that a file names, None without that file."""
    return path.read_text(encoding="utf-8").strip() if path.exists() else None


# --- What has to hold before -------------------------------------------------------------------------------------


def require_python(version: tuple[int, ...]) -> None:
    """Refuse a Python version that the locks are not made for, and name one that is here if there is one."""
    if tuple(version) in SUPPORTED_PYTHONS:
        return
    found = [name for name in supported_python_names() if shutil.which(name)]
    advice = f"{found[-1]} is here: use `make PYTHON={found[-1]} ...`" if found else "install one of them"
    raise SetupError(
        f"{', '.join(supported_python_names())} will do, this is Python {version[0]}.{version[1]} ({sys.executable}); "
        f"{advice}"
    )


def supported_python_names() -> list[str]:
    """Return the names of the programs that would do, oldest first."""
    return [f"python{major}.{minor}" for major, minor in SUPPORTED_PYTHONS]


def require_own_folder() -> None:
    """Stop if `.venv` is a link: others use what it leads to, and making it again would pull it away under them."""
    if VENVS.is_symlink():
        raise SetupError(
            f"{VENVS} is a link to {VENVS.resolve()}, and what is there is not what the locks of this folder ask for. "
            "Run `make setup` in the folder that it belongs to, or remove the link to get environments of your own."
        )


def require_no_run(missing: Sequence[Environment]) -> None:
    """Stop while a run in this folder, which Snakemake locks, uses an environment that would be made again."""
    used = " and ".join(environment.name for environment in missing if environment.stamp.exists())
    locks = ROOT / ".snakemake" / "locks"
    if used and locks.is_dir() and any(locks.iterdir()):
        raise SetupError(
            f"a run in this folder is not over, and its jobs use the {used} environment, which would be made again: "
            f"wait for it, or end it. If it was killed, and no job of it is left: rm -r {shlex.quote(str(locks))}"
        )


def require_venv_module() -> None:
    """Refuse a Python that cannot make environments: Debian and Ubuntu ship that part as a package of its own."""
    missing = [name for name in ("venv", "ensurepip") if importlib.util.find_spec(name) is None]
    if missing:
        major, minor = sys.version_info[:2]
        raise SetupError(
            f"{sys.executable} has no module {missing[0]}, so it cannot create an environment; "
            f"on Debian and Ubuntu: apt-get install python{major}.{minor}-venv"
        )


def require_engine_platform(kind: str) -> None:
    """Refuse a machine that vLLM's wheels are not made for."""
    system, machine = platform.system(), platform.machine()
    if system != "Linux" or machine not in ENGINE_MACHINES[kind]:
        raise SetupError(
            f"the {kind} engine is locked for Linux on {' and '.join(ENGINE_MACHINES[kind])}, this is {system} on "
            f"{machine}; the config can name another interpreter that has vLLM"
        )
    library, version = platform.libc_ver()
    if library == "glibc" and tuple(int(part) for part in version.split(".")[:2]) < ENGINE_GLIBC:
        raise SetupError(
            f"the engine's wheels need glibc {ENGINE_GLIBC[0]}.{ENGINE_GLIBC[1]}, this system has {version}; "
            "run in a container with a newer system, or name another interpreter that has vLLM in the config"
        )


def require_disk(environments: Sequence[Environment]) -> None:
    """Refuse to start when a file system is too full for the environments, pip's temporary files and pip's cache."""
    download = sum(size_of(environment).download_mb for environment in environments)
    disk = sum(size_of(environment).disk_mb for environment in environments)
    needs: dict[int, int] = {}
    places: dict[int, Path] = {}
    for place, megabytes in ((ROOT, disk), (Path(tempfile.gettempdir()), download), (pip_cache(), download)):
        existing = next(folder for folder in (place, *place.parents) if folder.exists())
        device = existing.stat().st_dev
        needs[device] = needs.get(device, 0) + megabytes
        places.setdefault(device, existing)
    for device, megabytes in needs.items():
        free = shutil.disk_usage(places[device]).free // 10**6
        if free < megabytes:
            raise SetupError(
                f"{megabytes:,} MB are needed in the file system of {places[device]} (environments, pip's temporary "
                f"files and cache), {free:,} MB are free; TMPDIR and PIP_CACHE_DIR move the last two"
            )


def pip_cache() -> Path:
    """Return the folder in which pip keeps downloads, unless its configuration says otherwise."""
    if os.environ.get("PIP_CACHE_DIR"):
        return Path(os.environ["PIP_CACHE_DIR"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pip"


# --- What it costs -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Size:
    """What an installation costs, and where the figures come from."""

    download_mb: int
    disk_mb: int
    seconds: int
    basis: str


def size_of(environment: Environment) -> Size:
    """Read the figures of an environment from sizes.json."""
    sizes = json.loads((ENVS / "sizes.json").read_text(encoding="utf-8"))
    return Size(**sizes[environment.lock_name])


def describe(environment: Environment) -> str:
    """Say in one line what will be installed, how much it downloads and how much disk it takes."""
    size = size_of(environment)
    what = f"{environment.name} ({environment.engine_kind} build)" if environment.engine_kind else environment.name
    return (
        f"{what}: downloads about {size.download_mb:,} MB, takes about {size.disk_mb:,} MB of disk and "
        f"{size.seconds} s ({size.basis}), into {environment.folder.relative_to(ROOT)}"
    )


# --- Is it there already -----------------------------------------------------------------------------------------


def is_current(environment: Environment) -> bool:
    """Whether the complete environment of this very lock is there."""
    try:
        written = json.loads(environment.stamp.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(written == stamp_content(environment)) and environment.python.exists()


def stamp_content(environment: Environment) -> dict[str, str]:
    """Return what decides whether an environment has to be made again.

    The folder is part of it, because the programs in `bin` hold their absolute path.
    """
    first = environment.first
    return {
        "lock_sha256": hashlib.sha256(environment.lock.read_bytes()).hexdigest(),
        **({"first_sha256": hashlib.sha256(first.read_bytes()).hexdigest()} if first.exists() else {}),
        "python": f"{sys.version_info[0]}.{sys.version_info[1]}",
        "machine": platform.machine(),
        "folder": str(environment.folder.resolve()),
    }


def write_atomically(path: Path, text: str) -> None:
    """Write a small file so that it is there whole or not at all."""
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


# --- The commands ------------------------------------------------------------------------------------------------


def commands(environment: Environment, asking_python: Path) -> list[list[str]]:
    """Return the commands that make an environment.

    asking_python is an interpreter whose pip can be asked what it offers: the environment itself once it exists.
    """
    result = [] if environment.on_top else [venv_command(environment)]
    return result + install_commands(environment, asking_python)


def venv_command(environment: Environment) -> list[str]:
    """Return the command that makes the empty environment; what an interrupted call left there goes."""
    return [sys.executable, "-I", "-m", "venv", "--clear", str(environment.folder)]


def install_commands(environment: Environment, asking_python: Path) -> list[list[str]]:
    """Return the pip commands that install the lock.

    Locks are complete, so `--no-deps`: that keeps out what engine-cpu leaves out on purpose. `-I` keeps packages on
    PYTHONPATH or in the user's folder from passing for installed ones. PyTorch's index is asked for torch alone.
    Nothing is installed without its hash, and nothing is built but SOURCE_ONLY, with tools that have theirs.
    """
    pip = [str(environment.python), "-I", "-m", "pip", "install", "--no-deps", "--progress-bar", "off"]
    pip += ["--require-hashes", "--only-binary", ":all:"]
    result = []
    torch = torch_cpu_pin(environment.lock)
    if torch and not pip_offers(torch, asking_python, os.environ):
        result.append([*pip, "--extra-index-url", TORCH_CPU_INDEX, "--requirement", str(environment.first)])
    sources = source_only_pins(environment.lock)
    if sources:
        result.append([*pip, "--requirement", str(environment.first)])
        pip += ["--no-binary", ",".join(sources), "--no-build-isolation"]
    result.append([*pip, "--requirement", str(environment.lock)])
    return result


def source_only_pins(lock: Path) -> list[str]:
    """Return the names of the packages in a lock that have no wheels."""
    text = lock.read_text(encoding="utf-8")
    return [name for name in SOURCE_ONLY if re.search(rf"^{re.escape(name)}==", text, flags=re.MULTILINE)]


def torch_cpu_pin(lock: Path) -> str | None:
    """Return the lock's pin of a `+cpu` build of torch, which PyPI does not have, None without one."""
    match = re.search(r"^torch==\S+\+cpu", lock.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return match.group() if match else None


def pip_offers(pin: str, python: Path, variables: Mapping[str, str]) -> bool:
    """Whether pip, as these environment variables and its files configure it, can get this pin for this Python."""
    command = [str(python), "-I", "-m", "pip", "install", "--dry-run", "--no-deps", "--ignore-installed"]
    command += ["--only-binary", ":all:", "--quiet", pin]
    result = subprocess.run(command, env=dict(variables), capture_output=True, stdin=subprocess.DEVNULL, check=False)
    return result.returncode == 0


def print_commands(environments: Sequence[Environment]) -> None:
    """Print what would run, as lines for a shell."""
    missing = without_current(environments)
    for environment in environments:
        if environment not in missing:
            print(f"# {environment.name}: up to date")
            continue
        print(f"# {describe(environment)}")
        for command in commands(environment, Path(sys.executable)):
            print(" ".join(shlex.quote(part) for part in command))


# --- Doing it ----------------------------------------------------------------------------------------------------


def set_up(environments: Sequence[Environment]) -> None:
    """Install what is not current, after saying what it costs."""
    missing = without_current(environments)
    if not missing:
        return
    require_own_folder()
    require_no_run(missing)
    require_venv_module()
    for environment in missing:
        print(describe(environment), flush=True)
    require_disk(missing)
    with only_one_at_a_time():
        # Again, because another call may have done the work in the meantime, and because making workflow again
        # removes dev with it: whether something is current is asked at its turn.
        for environment in environments:
            if not is_current(environment):
                install(environment)


def without_current(environments: Sequence[Environment]) -> list[Environment]:
    """Return the environments that have to be installed; what lies on top of one of them has to be as well."""
    missing: list[Environment] = []
    for environment in environments:
        below_is_missing = environment.on_top and any(other.folder == environment.folder for other in missing)
        if below_is_missing or not is_current(environment):
            missing.append(environment)
    return missing


@contextlib.contextmanager
def only_one_at_a_time() -> Iterator[None]:
    """Hold a lock on the folder of environments, so that two calls never write into it together."""
    VENVS.mkdir(exist_ok=True)
    write_atomically(VENVS / ".gitignore", "*\n")
    with open(VENVS / "setup.lock", "w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another setup is at work in .venv, waiting for it ...", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:  # a cluster's file system may have no locks
            print(f"start no second setup meanwhile: there are no locks in {VENVS} ({error.strerror})", flush=True)
        yield


def install(environment: Environment) -> None:
    """Make one environment, and stamp it when it is complete."""
    start = time.monotonic()
    log = VENVS / f"{environment.name}.log"
    log.write_text("", encoding="utf-8")
    print(f"installing {environment.name} ... (log: {log.relative_to(ROOT)})", flush=True)
    environment.stamp.unlink(missing_ok=True)
    if not environment.on_top:
        run(venv_command(environment), environment, log)
    for command in install_commands(environment, environment.python):
        run(command, environment, log)
    if environment.engine_kind:
        write_atomically(environment.folder / "engine-kind", environment.engine_kind + "\n")
    write_atomically(environment.stamp, json.dumps(stamp_content(environment), indent=2) + "\n")
    print(f"{environment.name} is ready, after {time.monotonic() - start:.0f} s", flush=True)


def install_program() -> None:
    """Put the program `refusal-eval` of this clone into the workflow environment, unless it is there.

    The library is not a package to install: it stands in scripts/ and is used from there. Nothing but the program
    names that folder: in a `.pth` file it would come before the library of another clone that links to this
    environment, and its jobs would run this clone's code.
    """
    if VENVS.is_symlink():
        return  # the environment is another clone's
    path = VENVS / "workflow" / "bin" / PROGRAM
    lines = (
        *shebang(str(VENVS / "workflow" / "bin" / "python")),
        "import sys",
        f"sys.path.insert(0, {str(ROOT / 'scripts')!r})",
        "from refusal_eval.__main__ import main",
        "sys.exit(main())",
    )
    text = "\n".join(lines) + "\n"
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text)
        path.chmod(0o755)


def shebang(python: str) -> list[str]:
    """Return the lines that start a script with an interpreter, as pip writes them.

    The kernel ends the interpreter's path at a space, and older ones cut the line at 127 bytes: there a shell finds it,
    in lines that are a string to Python.
    """
    line = f"#!{python}"
    if " " not in python and len(os.fsencode(line)) <= 127:
        return [line]
    return ["#!/bin/sh", f"'''exec' {shlex.quote(python)} \"$0\" \"$@\"", "' '''"]


def run(command: Sequence[str], environment: Environment, log: Path) -> None:
    """Run a command with its output in the log, say now and then how far it is, and raise SetupError if it fails."""
    with open(log, "a", encoding="utf-8") as output:
        output.write(f"$ {' '.join(shlex.quote(part) for part in command)}\n")
        output.flush()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        try:
            wait(process, environment, log)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    if process.returncode != 0:
        raise SetupError(failure_message(environment, log))


def wait(process: subprocess.Popen[bytes], environment: Environment, log: Path) -> None:
    """Wait for the end of a command, with a line of progress every few seconds."""
    start = time.monotonic()
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=SECONDS_BETWEEN_PROGRESS_LINES)
            return
        print(f"  {time.monotonic() - start:4.0f} s: {progress(environment, log)}", flush=True)


def progress(environment: Environment, log: Path) -> str:
    """Say how far pip is, from what it has written."""
    text = log.read_text(encoding="utf-8", errors="replace")
    if "\nInstalling collected packages" in text:
        return "unpacking"
    fetched = len(re.findall(r"^(?:Collecting|Processing) ", text, flags=re.MULTILINE))
    pins = len(re.findall(r"^[A-Za-z0-9]\S*==", environment.lock.read_text(encoding="utf-8"), flags=re.MULTILINE))
    return f"downloading, package {fetched} of {pins}"


def failure_message(environment: Environment, log: Path) -> str:
    """Return the end of the log and how to go on."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    last = "\n".join(f"  | {line[:300]}" for line in lines[-15:])
    advice = "run the same command again: what has been downloaded is kept in pip's cache"
    if any(TORCH_CPU_INDEX in line for line in lines):
        advice += (
            f"; if {TORCH_CPU_INDEX} cannot be reached from here, put its wheel of "
            f"{torch_cpu_pin(environment.lock)} into a folder and set PIP_FIND_LINKS to that folder"
        )
    return f"installing {environment.name} failed. The end of {log.relative_to(ROOT)}:\n{last}\n{advice}"


if __name__ == "__main__":
    sys.exit(main())
