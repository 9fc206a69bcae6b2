"""What the rules in workflow/rules/generate.smk ask: requests, their batches, and how responses become answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refusal_eval.ask.requests import CHANGES
from refusal_eval.study.batches import Cell, asked_models, batch_names, generation_batches
from refusal_eval.study.paths import Paths
from refusal_eval.workflow.rendering import protocol_params, rendering_params, template_file


class Generation:
    """From prompts to answers.

    Args:
        config: the validated study.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self._paths = Paths(config)
        self.models = asked_models(config)
        self.batches = generation_batches(config)
        self._batch_names = batch_names(self.batches)

    def engine(self, wildcards: Any) -> str:
        """Return the identity file of a model's engine."""
        return self._paths.engine(self._entry(wildcards)["engine"])

    def template(self, wildcards: Any) -> list[str]:
        """Return the template file that a model brings along, if any."""
        return template_file(self._entry(wildcards))

    def adapter(self, wildcards: Any) -> list[str]:
        """Return the identity file of a model's LoRA adapter, as a list for `input`: empty when it has none."""
        return [self._paths.adapter(wildcards.model)] if self._entry(wildcards).get("lora") else []

    def adapters(self, wildcards: Any) -> list[str]:
        """Return the checked LoRA adapters of a batch's models."""
        models = sorted({cell.model for cell in self.batches[wildcards.batch]})
        entries = self._config["model_entries"]
        return [self._paths.checked_adapter(model) for model in models if entries[model].get("lora")]

    def request_params(self, wildcards: Any) -> dict[str, Any]:
        """Return what of model and study enters a request."""
        entry = self._entry(wildcards)
        params = rendering_params(self._config, entry) | {
            "sampling": entry["sampling"],
            "samples": self._config["samples"],
            "seed": self._config["seed"],
        }
        params |= protocol_params(self._config, entry["sampling"])
        params |= {name: entry[name] for name in CHANGES if entry.get(name)}
        if entry.get("lora"):
            # What the adapter is comes from its file; that one was taken away is seen nowhere else.
            params["lora"] = True
        if self._config["split_entries"][wildcards.split].get("dialogue"):
            # Only the answer to a turn, without its reasoning, stands in the history of the next one.
            params["dialogue"] = {"reasoning": entry["reasoning"]}
        return params

    def requests(self, wildcards: Any) -> list[str]:
        """Return the request files of a batch."""
        cells = self.batches[wildcards.batch]
        return [f"{self._paths.results}/requests/{cell.model}/{cell.split}.jsonl" for cell in cells]

    def receipts(self, wildcards: Any) -> list[str]:
        """Return the receipts of the batch that holds a cell."""
        batch = self._batch_names[Cell(wildcards.model, wildcards.split)]
        return self._paths.receipts("generate", batch)

    def segments(self, wildcards: Any) -> dict[str, Any]:
        """Return what decides which part of a response is the answer."""
        entry = self._entry(wildcards)
        trust = self._config["engine_entries"][entry["engine"]].get("trust_remote_code", False)
        return {"reasoning": entry["reasoning"], "trust_remote_code": trust}

    def _entry(self, wildcards: Any) -> dict[str, Any]:
        entry: dict[str, Any] = self._config["model_entries"][wildcards.model]
        return entry
