"""Loads of earlier versions that answered for the plain model with an adapter's weights."""

from collections.abc import Mapping, Sequence
from typing import Any


def last_slot_taken(record: Mapping[str, Any]) -> str | None:
    """Tell whether vLLM on a CPU had an adapter in its last slot, whose weights requests without one then got.

    Which requests had none the file does not say.
    """
    arguments = list(map(str, record.get("arguments") or ()))
    if record.get("device") != "cpu" or "--enable-lora" not in arguments:
        return None
    adapters = len(_values(arguments, "--lora-modules"))
    slots = [int(value) for value in _values(arguments, "--max-loras")]
    if not adapters or (slots and slots[-1] > adapters):
        return None
    return (
        f"a load of vLLM on a CPU wrote it with {adapters} LoRA adapters and no slot left empty, in which requests "
        "without an adapter got the weights of one"
    )


def _values(arguments: Sequence[str], name: str) -> list[str]:
    """Return the values of an argument, as `--name=value` or as those that follow `--name`."""
    found = [argument.partition("=")[2] for argument in arguments if argument.startswith(f"{name}=")]
    for place, argument in enumerate(arguments):
        if argument == name:
            for value in arguments[place + 1 :]:
                if value.startswith("--"):
                    break
                found.append(value)
    return found
