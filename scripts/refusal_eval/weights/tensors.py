"""The tensors of a safetensors file: their names, types and shapes, without their numbers."""

from pathlib import Path
from typing import NamedTuple

from refusal_eval.core.errors import UserError

Shape = tuple[int, ...]


class Tensor(NamedTuple):
    """Type (as safetensors calls it, e.g. BF16) and shape of a tensor."""

    kind: str
    shape: Shape


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
