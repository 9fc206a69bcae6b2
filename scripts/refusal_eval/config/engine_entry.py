"""Engines: what every kind of them has in its catalogue entry, and what the rest of the workflow asks a kind.

A kind of engine is one class in a module of engines/: the schema of its entries, what it can do, its identity, its
devices, and how it is entered. `ENGINES` (kinds.py) names the kinds that ship.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import Field, model_validator

from refusal_eval.config.kinds import ENGINES, OfKind
from refusal_eval.config.shapes import Day, Entry, Page, Text, Version, Whole

# What a kind of engine can do. It is asked while a study is validated, before anything runs.
Capability = Literal[
    "writes_text",  # it is a language model; answers are texts
    "classifies",  # a response is the logits of classes
    "embeds",  # a response is a vector for each text of the request
    "takes_token_ids",  # a request is the exact token ids, rendered here with the engine's own tokenizer
    "takes_messages",  # a request is a list of messages, which the engine renders itself
    "log_probabilities",  # a response has the raw log-probability of each of its tokens
    "label_probabilities",  # the log-probabilities of named tokens can be asked for
    "prompt_log_probabilities",  # the log-probability of each token of a prompt can be asked for
    "structured_outputs",  # a reply can be held to a form
    "model_changes",  # it takes the options of vLLM by which models are changed
    "steers_attention",  # a request may say at which tokens of its prompt attention is changed
    "seeds",  # a request's seed is obeyed
    "strict",  # `determinism: strict` can be had
    "may_block",  # its provider may block prompts or answers, which is no refusal of the model's
]


class Verified(Entry):
    """When and where an engine was last seen to work."""

    date: Day = Field(description="The day.")
    version: Version = Field(description="Version of vLLM.")
    device: Text = Field(description="What it ran on: `cpu`, or the GPU's name, e.g. `8 x H100 80GB`.")


class Engine(Entry):
    """Where answers come from. This is what all kinds have; each adds its own fields.

    A kind is entered with `running`. What needs no GPU, no weights and no tokenizer leaves the methods as they are.
    """

    capabilities: ClassVar[frozenset[Capability]]
    # Whether its loads are jobs of the main process: they need the internet, which compute nodes have not.
    elsewhere: ClassVar[bool] = False
    reads_of_study: ClassVar[tuple[str, ...]] = ()  # the keys of a study that a load is given (`EngineLoad.study`)

    kind: str
    max_model_len: Whole | None = Field(None, ge=16, description="Longest prompt plus answer, in tokens.")
    verified: Literal["never"] | Verified = Field(
        "never",
        description="When and where this entry was last seen to work with the real engine, e.g. "
        "`{date: 2026-11-22, version: 0.32.0, device: cpu}`. For readers only; in no key.",
    )
    licence: Text | None = Field(
        None,
        description="Licence of the weights, as their publisher states it. Shown by `refusal-eval plan`; in no key.",
    )
    gated: bool | None = Field(
        False, description="Whether you must ask the publisher for access to the weights first; `null`: not known."
    )
    enabled: bool = Field(
        True,
        description="`false`: a study uses a model or a judge with this engine only if it names it in `allow`. For "
        "weights that are gated or not free to use.",
    )
    reason: Text | None = Field(None, description="Why it is off; shown to whoever uses it.")
    terms: Page | None = Field(None, description="Where to ask for access, or to read the terms.")
    unverified: list[Text] = Field(
        [], description="What could not be verified when the entry was written; `refusal-eval plan` shows it."
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        unknown: set[str] = set(getattr(cls, "capabilities", ())) - set(get_args(Capability))
        if unknown:
            raise TypeError(f"{cls.__name__}.capabilities: there is no `{min(unknown)}`")

    @model_validator(mode="after")
    def _says_where_to_ask(self) -> Engine:
        if self.gated and self.terms is None:
            raise ValueError("`gated: true` needs `terms`: the address where one asks for access")
        if not self.enabled and self.reason is None:
            raise ValueError("`enabled: false` needs a `reason`: users read it")
        return self

    def able(self) -> frozenset[Capability]:
        """Return what this engine can do: what its kind can, and what its entry adds."""
        return self.capabilities

    def identity(self, weights: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the part of this engine that is in the key of every request, and so can never change its form.

        Args:
            weights: what identifies its weights (see `refusal_eval.weights.engine_file`); None for a kind without.
        """
        raise NotImplementedError

    def identity_by_length(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is in the identity besides because of `max_model_len`; nothing where it changes no response.

        Args:
            config: the model's config.json; empty where there is none.
        """
        return {}

    @classmethod
    def described(cls, entry: Mapping[str, Any]) -> str:
        """Return an entry in words, for the methods section; nothing where its kind has none of its own."""
        return ""

    def sent_sampling(self, sampling: Mapping[str, Any]) -> dict[str, Any]:
        """Return those sampling parameters of a model that are sent, and so are in the key of its requests."""
        return dict(sampling)

    def device_here(self, root: str | Path = ".") -> str | None:
        """Return what it computes on, `cpu` or `cuda`; None for an engine that computes elsewhere.

        Args:
            root: the repository's folder, which holds the engine's environment.
        """
        return None

    def python_here(self, root: str | Path = ".") -> str:
        """Return the Python of the engine environment; empty for an engine that computes elsewhere."""
        return ""

    def gpus(self, device: str | None) -> int:
        """Return the GPUs that one load takes on a device."""
        return 0

    def nodes_used(self) -> int:
        """Return the machines that share one load."""
        return 1

    def strict_by_kernels(self) -> bool:
        """Tell whether a strict study needs kernels of it that not every model has."""
        return False

    def untried_with_interventions(self) -> Iterator[str]:
        """Yield the settings that were never tried together with an intervention, each as a sentence for the user."""
        yield from ()

    def most_at_once(self, device: str | None) -> int:
        """Return how many requests are given to it at one time where the study does not say."""
        return 8

    def variables(self) -> list[str]:
        """Return the environment variables without which no load of it can start, such as that of a key."""
        return []

    def trial(self, sampling: Mapping[str, Any], folder: str) -> Any:
        """Return what `refusal-eval check --model` runs of an engine that computes elsewhere, or None if it cannot.

        Args:
            sampling: that of the model.
            folder: a folder for its files (see `refusal_eval.program.trial_elsewhere`).
        """
        return None

    def running(self, load: Any) -> Any:
        """Return the engine for one load, to be entered by `async with` (see `refusal_eval.engines.engine_base`).

        Args:
            load: what the load is made of (`EngineLoad`).
        """
        raise NotImplementedError


AnyEngine = Annotated[Engine, OfKind(ENGINES)]
