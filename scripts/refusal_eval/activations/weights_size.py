"""How many bytes the weights of a model folder take when they are loaded in a number format."""

from __future__ import annotations

import math
from pathlib import Path

from safetensors import SafetensorError, safe_open

from refusal_eval.core.files import BadFile, read_json

INDEX, ONE_FILE = "model.safetensors.index.json", "model.safetensors"
BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
# Of numbers that are loaded as they are; all with a fraction (F64, F32, F16, BF16) take the format that is asked for.
BYTES_AS_HELD = {"I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1}


def loaded_size(folder: str | Path, dtype: str) -> int:
    """Return the bytes of the weights of a model folder in a number format, from the headers of its files.

    Args:
        folder: the model.
        dtype: a key of `BYTES`.

    Raises:
        BadFile: if a file is damaged.
    """
    total = 0
    for path in weight_files(Path(folder)):
        try:
            with safe_open(str(path), "numpy") as file:
                for name in file.keys():  # noqa: SIM118 (it is no mapping)
                    tensor = file.get_slice(name)
                    size = BYTES_AS_HELD.get(tensor.get_dtype(), BYTES[dtype])
                    total += math.prod(tensor.get_shape()) * size
        except (SafetensorError, OSError) as error:
            raise BadFile(f"{path} cannot be read: {error}") from error
    return total


def weight_files(folder: Path) -> list[Path]:
    """Return the files that transformers loads: those of the index, the one file, or all; never a second copy."""
    if (folder / ONE_FILE).is_file():
        return [folder / ONE_FILE]
    if (folder / INDEX).is_file():
        return [folder / name for name in sorted(set(read_json(folder / INDEX)["weight_map"].values()))]
    return sorted(folder.glob("*.safetensors"))
