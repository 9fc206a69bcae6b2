"""Runs of Snakemake and `refusal-eval`, forked from a process that has imported both: each starts two seconds sooner.

The scripts of Snakemake's jobs are forked as well (`forked_jobs`).

As a program this file serves: it reads a run per line, and answers each with its exit code.
"""

import gc
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from forked_jobs import SCRIPTS, fork_jobs, serve_jobs

ROOT = Path(__file__).resolve().parents[1]
RULES = ROOT / "workflow" / "rules"
_OF_THREAD = threading.local()


def run_snakemake(arguments: Sequence[str], cwd: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Return what `python -m snakemake` with these arguments, in this folder, came to."""
    return _run("snakemake", arguments, cwd, env)


def run_refusal_eval(arguments: Sequence[str], cwd: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Return what `python -m refusal_eval` with these arguments, in this folder, came to."""
    return _run("refusal_eval", arguments, cwd, env)


def _run(module: str, arguments: Sequence[str], cwd: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    server = _server()
    with tempfile.TemporaryDirectory(prefix="forked-run-") as folder:
        texts = [str(Path(folder, name)) for name in ("stdout", "stderr")]
        run = {"module": module, "arguments": list(arguments), "cwd": str(cwd), "env": dict(env), "texts": texts}
        assert server.stdin and server.stdout
        try:
            server.stdin.write(json.dumps(run) + "\n")
            server.stdin.flush()
            code = int(server.stdout.readline())
        except BaseException:  # a test that takes too long, too: its run must not go on
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
            del _OF_THREAD.server
            raise
        said = (Path(text).read_text(encoding="utf-8") for text in texts)
        return subprocess.CompletedProcess([module, *arguments], code, *said)


def _server() -> subprocess.Popen[str]:
    if not hasattr(_OF_THREAD, "server"):
        _OF_THREAD.server = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    server: subprocess.Popen[str] = _OF_THREAD.server
    return server


def _serve() -> None:
    import snakemake.cli

    sys.path.append(str(SCRIPTS))
    jobs = serve_jobs()
    import refusal_eval.__main__

    for rules in sorted(RULES.glob("*.smk")):
        for line in re.findall(r"^from refusal_eval.*", rules.read_text(encoding="utf-8"), re.MULTILINE):
            exec(line, {})
    _load_pin()
    gc.freeze()
    for line in sys.stdin:
        if pid := os.fork():
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        else:
            run = json.loads(line)
            _become(run)
            if run["module"] == "refusal_eval":
                sys.exit(refusal_eval.__main__.main(run["arguments"]))
            fork_jobs(jobs)
            snakemake.cli.main()
            return
    shutil.rmtree(Path(jobs).parent)


def _load_pin() -> None:
    """Load what `refusal-eval pin` imports, and a study, whose first check costs most."""
    from refusal_eval.config.load_study import load_study, study_values
    from refusal_eval.tools.pin import pin_command  # noqa: F401 - the verb imports it

    demo = str(ROOT / "config" / "config.yaml")
    load_study(study_values(demo), demo, str(ROOT))
    assert "huggingface_hub" not in sys.modules, "it reads its environment once, when it is imported"


def _become(run: dict[str, Any]) -> None:
    """Make this process what the run would be as a program of its own."""
    for number, path in enumerate((os.devnull, *run["texts"])):
        file = os.open(path, os.O_RDWR | os.O_CREAT)
        os.dup2(file, number)
        os.close(file)
    os.chdir(run["cwd"])
    os.environ.clear()
    os.environ.update(run["env"])
    tempfile.tempdir = None  # it is asked for again
    sys.path[0] = run["cwd"]
    sys.argv = [run["module"], *run["arguments"]]


if __name__ == "__main__":
    _serve()
