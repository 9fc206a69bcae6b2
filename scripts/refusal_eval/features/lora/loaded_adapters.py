"""The LoRA adapters of one engine load."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json
from refusal_eval.engines.loaded_change import LoadedChange
from refusal_eval.features.lora.adapter import Adapter

if TYPE_CHECKING:
    from refusal_eval.ask.pending import Pending
    from refusal_eval.core.time_limit import TimeLimit
    from refusal_eval.engines.engine_base import RunningEngine

# Of vLLM 0.32; ranks between them are served with the next larger one.
MAX_LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
# Adapters in one step of the engine; each takes memory of its largest rank in every layer. Further ones wait in RAM.
MOST_ADAPTERS_AT_ONCE = 8


@dataclass(frozen=True)
class LoadedAdapters(LoadedChange):
    """The adapters that a load serves."""

    name: ClassVar[str] = "lora"

    adapters: Sequence[Adapter]

    def __str__(self) -> str:
        """Return whose they are."""
        return "the LoRA adapters of " + ", ".join(f"`{adapter.model}`" for adapter in self.adapters)

    def asked_by(self, pending: Sequence[Pending]) -> Self | None:
        """Return the adapters that requests ask for, each once: two models may share one.

        Raises:
            UserError: for one that is not there, and for files that have changed.
        """
        known = {adapter.name: adapter for adapter in self.adapters}
        asked = {name for item in pending if (name := item.settings.served_as)} if pending else set(known)
        if missing := sorted(asked - known.keys()):
            raise UserError(f"the requests ask for the LoRA adapter {missing[0]}, which no longer exists; run again")
        served = [known[name].unchanged() for name in sorted(asked)]
        return replace(self, adapters=served) if served else None

    def refuse_changed(self) -> None:
        """Raise `UserError` for files that are not as they were identified."""
        for adapter in self.adapters:
            adapter.unchanged()

    def without_paths(self) -> Self:
        """Return them without their folders."""
        return replace(self, adapters=[replace(adapter, folder="FOLDER") for adapter in self.adapters])

    def options(self) -> dict[str, Any]:
        """Return the options that make a server load these adapters."""
        ordered = sorted(self.adapters, key=lambda adapter: adapter.name)
        # As JSON and not as name=path, which a path with `=` would break.
        modules = [json.dumps({"name": adapter.name, "path": adapter.folder}) for adapter in ordered]
        # Each rank is at most the last.
        most = next(rank for rank in MAX_LORA_RANKS if all(adapter.rank <= rank for adapter in ordered))
        return {"enable-lora": True, "max-lora-rank": most, "lora-modules": modules}

    def last_options(self, device: str | None, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options that say how many adapters are at hand.

        On a CPU vLLM 0.32 takes the weights of the last slot for requests without an adapter (its index is -1 there),
        so that one stays empty: there is a slot more than there are adapters, whatever is given.
        """
        count = len(self.adapters)
        slots = given.get("max-loras", min(count, MOST_ADAPTERS_AT_ONCE))
        if device == "cpu":
            slots = max(slots, count + 1)
        return {"max-loras": slots, "max-cpu-loras": max(given.get("max-cpu-loras", count), slots)}

    async def probe(
        self, engine: RunningEngine, pending: Sequence[Pending], limit: TimeLimit | None = None
    ) -> dict[str, Any]:
        """Return what greedy answers with and without each adapter say (see `probe_adapters`)."""
        # Here, because tests of requests and rules need none of it.
        from refusal_eval.features.lora import adapter_probe

        return await adapter_probe.probe_adapters(engine, pending, limit)


def loaded_adapters(files: Sequence[str], folder: Path) -> LoadedAdapters:
    """Return the adapters of a load (see `Change.loaded`)."""
    described = [read_json(file) for file in files]
    return LoadedAdapters([Adapter(**one | {"folder": str(folder / one["folder"])}) for one in described])
