"""Engines out of entries that need not be whole, and what is started and asked of them."""

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from refusal_eval.ask.requests import RequestSettings
from refusal_eval.engines.engine_base import EngineLoad
from refusal_eval.engines.local_engine import LocalEngine
from refusal_eval.engines.server import Server
from refusal_eval.engines.vllm_engine import VllmEngine

if TYPE_CHECKING:
    from refusal_eval.features.lora.adapter import Adapter


def engine_of(entry: Mapping[str, Any], kind: type[LocalEngine] = VllmEngine) -> LocalEngine:
    """Return the engine of an entry, as of a caller that did not check it."""
    return kind.model_construct(**entry)


def server_command(
    python: str,
    folder: str,
    entry: Mapping[str, Any],
    device: str,
    determinism: str,
    socket: str,
    adapters: "Sequence[Adapter]" = (),
) -> list[str]:
    changes = []
    if adapters:
        from refusal_eval.features.lora.loaded_adapters import LoadedAdapters

        changes = [LoadedAdapters(adapters)]
    load = EngineLoad(Path("log"), determinism, folder, python, device, changes=changes)
    return engine_of(entry).command(load, folder, socket)


def engine_identity(entry: Mapping[str, Any], weights: Mapping[str, Any]) -> dict[str, Any]:
    return engine_of(entry).identity(weights)


def server(
    entry: Mapping[str, Any], folder: str, python: str, device: str, determinism: str, log: Path, gpus: int = 0
) -> Server:
    return Server(engine_of(entry), EngineLoad(log, determinism, folder, python, device, gpus))


def settings_of(engine: Mapping[str, Any], sampling: Mapping[str, Any], lora: Any = None) -> RequestSettings:
    """Return the settings of requests to a described engine."""
    return RequestSettings(
        engine["engine_id"], engine["identity"], sampling, changes={} if lora is None else {"lora": lora}
    )


def vllm_folder() -> Path:
    """Return the folder of the installed vLLM; skip the test where there is none."""
    found = list(Path(__file__).parents[1].glob(".venv/engine/lib/python3*/site-packages/vllm"))
    return found[0] if found else pytest.skip("no engine environment here")


def vllm_options() -> set[str]:
    """Return the names of the installed vLLM's options, by its source."""
    names = set()
    for source in ("engine/arg_utils.py", "entrypoints/launchers/cli_args.py"):
        for node in ast.walk(ast.parse((vllm_folder() / source).read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and node.name.endswith(("EngineArgs", "FrontendArgs")):
                fields = [item.target for item in node.body if isinstance(item, ast.AnnAssign)]
                names |= {field.id.replace("_", "-") for field in fields if isinstance(field, ast.Name)}
    return names
