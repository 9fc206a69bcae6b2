"""Names, types and shapes of the tensors in safetensors files, read from their headers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from refusal_eval.core.errors import UserError


@dataclass(frozen=True)
class Tensor:
    """Type (as safetensors calls it, e.g. BF16) and shape of a tensor."""

    kind: str
    shape: tuple[int, ...]


def read_tensors(path: str | Path) -> dict[str, Tensor]:
    """Return the tensors of a file by name; their numbers are not read.

    Raises:
        UserError: if it is not a safetensors file.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="numpy") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            return {name: Tensor(str(part.get_dtype()), tuple(part.get_shape())) for name, part in slices.items()}
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} cannot be read as safetensors: {error}") from error
