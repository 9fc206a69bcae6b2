"""What the lock file of a study says about the files of a repository.

The lock file was validated when the study was loaded (config/lock_file.py); here its lists of files are read only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import inner_name
from refusal_eval.core.yaml_files import read_yaml
from refusal_eval.data.hub import RemoteFile

LISTS = {"model": "models", "dataset": "datasets"}


def locked_files(config: Mapping[str, Any], kind: str, source: Mapping[str, Any]) -> dict[str, RemoteFile] | None:
    """Return what the files of a hub source hold by the study's lock file, by name; None if it does not tell.

    Args:
        config: the validated study; its `lock` names the lock file, if it has one.
        kind: of the repository: `model` or `dataset`.
        source: the source.

    Raises:
        UserError: if the lock file is gone or was damaged since the study was loaded.
    """
    path = config.get("lock")
    if source["kind"] != "hub" or not path:
        return None
    try:
        repos = read_yaml(path).get(LISTS[kind]) or []
        for one in repos:
            if (one["repo"], one["commit"]) == (source["repo"], source["revision"]):
                return {inner_name(name): remote_file(state) for name, state in one["files"].items()}
    except (OSError, yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"the lock file {path} changed while the study ran and cannot be read: {error}") from error
    return None


def remote_file(state: str) -> RemoteFile:
    """Return what a line of the lock file says: `727 git:<40 hex digits>` or `5000 sha256:<64 hex digits>`."""
    size, digest = state.split()
    kind, value = digest.split(":")
    return RemoteFile(int(size), value if kind == "sha256" else None, value if kind == "git" else None)


def file_state(file: RemoteFile) -> str:
    """Return the line of the lock file for a file.

    Raises:
        ValueError: if no hash of it is known.
    """
    if file.sha256 is not None:
        return f"{file.size} sha256:{file.sha256}"
    if file.git is None:
        raise ValueError("a file without a hash cannot be locked")
    return f"{file.size} git:{file.git}"
