#!/usr/bin/env python3
"""A Slurm cluster of one node on this machine's loopback, without systemd, with eight GPUs that do not exist.

    python3 tests/slurm/cluster.py install     Debian's slurm-wlm and munge, by apt-get
    python3 tests/slurm/cluster.py start       prints the line that lets sbatch and squeue find it
    python3 tests/slurm/cluster.py status
    python3 tests/slurm/cluster.py stop

All of it lies in one folder (`--folder`): configuration, key, logs, state. It listens on 127.0.0.1 only, on ports that
were free, beside any Slurm that the machine may have. `stop` ends what `start` started and nothing else. It needs
root, because munge's and Slurm's daemons would have to be set up for another user otherwise; nothing is written
outside the folder (`install` apart). Needs nothing but the standard library.
"""

import argparse
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

FOLDER = Path("/tmp/refusal-eval-slurm")
CONFIGURATION = Path(__file__).with_name("slurm.conf.in")
PACKAGES = ("slurm-wlm", "slurm-wlm-basic-plugins", "munge")
PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "srun", "squeue", "scancel", "scontrol", "sinfo")
GPUS = 8
CPUS = 32
MEMORY_MB = 1_000_000
DAEMONS = ("slurmd", "slurmctld", "munged")  # in the order in which they are stopped
START_SECONDS = 60.0
STOP_SECONDS = 60.0
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"

# Files stand for the devices: a bare `Count=8` is refused ("count reported lower than configured").
GRES_CONF = "AutoDetect=off\nNodeName=localhost Name=gpu Type=test File={folder}/gpu[0-{last}] Flags=nvidia_gpu_env\n"


# Snakemake's job step takes SLURM_CONF away from srun, which then looks for the cluster in /etc and in the DNS.
COMMANDS = ("sbatch", "srun", "squeue", "scancel", "scontrol", "sinfo", "sacct")
COMMAND = '#!/bin/sh\nSLURM_CONF={folder}/slurm.conf exec {program} "$@"\n'


class ClusterError(Exception):
    """What keeps the cluster from being installed, started or stopped."""


class Cluster:
    """The cluster in one folder.

    Args:
        folder: where everything of it lies; short, because a socket lies in it.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        self.folder = folder.absolute()

    # ------------------------------------------------------------ what a user of it needs

    def environment(self) -> dict[str, str]:
        """Return the variables that let Slurm's commands find the cluster, also in jobs."""
        return {"PATH": f"{self.folder / 'bin'}:{PATH}", "SLURM_CONF": str(self.folder / "slurm.conf")}

    def run(self, *command: str, check: bool = True) -> str:
        """Run one of Slurm's commands; return what it prints.

        Raises:
            ClusterError: if it fails and `check` is set.
        """
        run = subprocess.run(
            command, env={**os.environ, **self.environment()}, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        if check and run.returncode != 0:
            raise ClusterError(f"{' '.join(command)}: {run.stderr.strip() or run.stdout.strip()}")
        return run.stdout

    def jobs(self) -> dict[str, str]:
        """Return the state of every job that Slurm remembers, by number."""
        lines = self.run("squeue", "--noheader", "--states=all", "--format=%i|%T").split()
        return dict(line.split("|", 1) for line in lines)

    def job(self, number: str) -> dict[str, str]:
        """Return what `scontrol show job` tells of a job."""
        words = self.run("scontrol", "--oneliner", "show", "job", number).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    # ------------------------------------------------------------ start and stop

    def start(self) -> None:
        """Start the daemons and wait until the node takes jobs.

        Raises:
            ClusterError: without root or programs, if it runs already, or if it does not come up.
        """
        if reason := why_not():
            raise ClusterError(reason)
        if self.running():
            raise ClusterError(f"a cluster runs in {self.folder} already")
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(mode=0o755, parents=True)
        self._configure()
        try:
            self._daemon("munged", *self._munged_arguments())
            self._until("munge", lambda: (self.folder / "munge.socket").exists())
            self.start_daemon("slurmctld")
            self._until("slurmctld", lambda: "UP" in self.run("scontrol", "ping", check=False))
            self.start_daemon("slurmd")
            self._until("an idle node", lambda: "idle" in self.run("sinfo", "-h", "-o", "%t", check=False))
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all jobs, then the daemons that `start` started."""
        running = self.running()
        if "slurmctld" in running and "slurmd" in running:
            with suppress(ClusterError):
                self.end_jobs()
        for name in DAEMONS:
            if name in running:
                self._end(running[name])

    def running(self) -> dict[str, int]:
        """Return the process numbers of the daemons that run in this folder, by name."""
        found = {}
        for name in DAEMONS:
            with suppress(OSError, ValueError):
                pid = int((self.folder / f"{name}.pid").read_text())
                # The number may be another's by now: the command line must name this folder.
                command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if any(str(self.folder).encode() in word for word in command) and not _is_zombie(pid):
                    found[name] = pid
        return found

    def kill_daemon(self, name: str) -> None:
        """Kill one daemon as a crash would."""
        os.kill(self.running()[name], signal.SIGKILL)
        self._until(f"end of {name}", lambda: name not in self.running())

    def start_daemon(self, name: str) -> None:
        """Start one of Slurm's two daemons."""
        arguments = ("-N", "localhost") if name == "slurmd" else ()
        self._daemon(name, "-f", str(self.folder / "slurm.conf"), *arguments)

    def _configure(self) -> None:
        controller_port, node_port = _free_ports(2)
        for name in ("state", "spool"):
            (self.folder / name).mkdir(mode=0o700)
        for number in range(GPUS):
            _make_device(self.folder / f"gpu{number}")
        text = CONFIGURATION.read_text().format(
            folder=self.folder,
            controller_port=controller_port,
            node_port=node_port,
            host=socket.gethostname().split(".")[0],
            cpus=CPUS,
            memory=MEMORY_MB,
            gpus=GPUS,
        )
        (self.folder / "slurm.conf").write_text(text)
        (self.folder / "gres.conf").write_text(GRES_CONF.format(folder=self.folder, last=GPUS - 1))
        (self.folder / "bin").mkdir()
        for name in COMMANDS:
            program = self.folder / "bin" / name
            program.write_text(COMMAND.format(folder=self.folder, program=shutil.which(name, path=PATH)))
            program.chmod(0o755)
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(1024))

    def _munged_arguments(self) -> list[str]:
        places = {"socket": "munge.socket", "key-file": "munge.key", "pid-file": "munged.pid"}
        places |= {"log-file": "munged.log", "seed-file": "munge.seed"}
        # `--force`, because the folder's parent, as /tmp, may be one that everybody can write to.
        return ["--force", *(f"--{option}={self.folder / name}" for option, name in places.items())]

    def _daemon(self, name: str, *arguments: str) -> None:
        with open(self.folder / f"{name}.out", "ab") as output:
            run = subprocess.run(
                [name, *arguments],
                cwd=self.folder,
                env={**os.environ, "PATH": PATH},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=START_SECONDS,
            )
        if run.returncode != 0:
            raise ClusterError(f"{name} does not start: {(self.folder / f'{name}.out').read_text()[-1000:]}")

    def end_jobs(self) -> None:
        """Put the node into service and end all jobs."""
        self.run("scontrol", "update", "NodeName=localhost", "State=RESUME", check=False)
        for number, state in self.jobs().items():
            if state in ("PENDING", "RUNNING", "COMPLETING", "SUSPENDED"):
                self.run("scancel", number, check=False)
        self._until("end of all jobs", lambda: not self.run("squeue", "--noheader").strip(), STOP_SECONDS)

    def _end(self, pid: int) -> None:
        for number, wait in ((signal.SIGTERM, 20.0), (signal.SIGKILL, 10.0)):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
            deadline = time.monotonic() + wait
            while time.monotonic() < deadline:
                if not Path(f"/proc/{pid}").exists() or _is_zombie(pid):
                    return
                time.sleep(0.1)

    def _until(self, what: str, condition: Callable[[], bool], seconds: float = START_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                logs = "\n".join(
                    f"{path.name}: {path.read_text(errors='replace')[-800:]}"
                    for path in sorted(self.folder.glob("*.log"))
                )
                raise ClusterError(f"no {what} after {seconds:.0f} s\n{logs}")
            time.sleep(0.2)


def why_not() -> str | None:
    """Return what keeps a cluster from being started on this machine, or None."""
    if os.getuid() != 0:
        return "starting Slurm's daemons needs root"
    missing = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
    if missing:
        return f"{', '.join(missing)} missing: run `python3 tests/slurm/cluster.py install`"
    return None


def install() -> None:
    """Install Slurm and munge by apt-get, without starting anything.

    Raises:
        ClusterError: if it is not Debian or Ubuntu, without root, and if apt-get fails.
    """
    if all(shutil.which(name, path=PATH) for name in PROGRAMS):
        return
    if os.getuid() != 0:
        raise ClusterError("installing Slurm needs root")
    if shutil.which("apt-get") is None:
        raise ClusterError("there is no apt-get here; install Slurm and munge by hand")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES]
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    if run.returncode != 0:  # old package lists, perhaps
        subprocess.run(["apt-get", "update"], env=environment, capture_output=True)
        run = subprocess.run(command, env=environment, capture_output=True, text=True)
    if run.returncode != 0:
        raise ClusterError(f"{' '.join(command)} failed: {run.stderr[-1000:]}")


def _make_device(path: Path) -> None:
    """Make a file that Slurm takes for a GPU: another /dev/null, or where that is not allowed an empty file.

    Slurm sets CUDA_VISIBLE_DEVICES only for true device files.
    """
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        path.touch()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _is_zombie(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return False


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(description="A Slurm cluster of one node on this machine, for tests.")
    parser.add_argument("command", choices=("install", "start", "stop", "status"))
    parser.add_argument("--folder", type=Path, default=FOLDER, help=f"where it lies (default {FOLDER})")
    options = parser.parse_args(arguments)
    cluster = Cluster(options.folder)
    try:
        if options.command == "install":
            install()
        elif options.command == "start":
            cluster.start()
            print(f"export PATH={cluster.folder}/bin:$PATH SLURM_CONF={cluster.folder}/slurm.conf")
        elif options.command == "stop":
            cluster.stop()
        else:
            running = cluster.running()
            print(f"{cluster.folder}: {', '.join(f'{n} {pid}' for n, pid in running.items()) or 'nothing runs'}")
            if "slurmctld" in running:
                print(cluster.run("sinfo") + cluster.run("squeue"), end="")
    except ClusterError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
