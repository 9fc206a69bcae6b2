"""The vLLM engine: language models, asked for completions of token ids."""

from __future__ import annotations

import os
from collections.abc import Sequence

from refusal_eval.engines.engine_base import Capabilities
from refusal_eval.engines.engine_client import CompletionClient
from refusal_eval.engines.server import ServerEngine
from refusal_eval.engines.server_command import Adapter, load_format_of, server_command
from refusal_eval.study.engine_environment import shares_few_cores

LOWEST_PRIORITY = 19


class VllmEngine(ServerEngine):
    """A vLLM server (see `ServerEngine`)."""

    capabilities = Capabilities(
        takes_token_ids=True, returns_log_probabilities=True, label_probabilities=True, deterministic=True
    )

    def _command(self, folder: str, socket: str, adapters: Sequence[Adapter]) -> list[str]:
        how = self._entry, self._device, self._determinism
        load_format, few_cores = load_format_of(self._folder), shares_few_cores(self._device)
        return server_command(self._python, folder, *how, socket, adapters, load_format, few_cores)

    def _ready(self, pid: int) -> None:
        # A thread that computes waits for the slowest, so that what the API server takes of one core is lost on all.
        # With the lowest priority it runs while the engine core samples; and when it has fallen behind, the engine runs
        # out of requests and leaves it the cores.
        if shares_few_cores(self._device):
            os.setpriority(os.PRIO_PROCESS, pid, LOWEST_PRIORITY)

    def _connect(self, socket: str) -> CompletionClient:
        return CompletionClient(socket, self.exit_code)
