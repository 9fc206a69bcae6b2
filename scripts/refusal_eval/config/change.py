"""Changes of models: keys of a model's entry that change what its engine computes.

A change is one class in the folder of its feature, found by `CHANGES` (config/kinds.py). It answers whatever the
workflow, the requests and the methods section ask of it; what a running engine does with it is a `LoadedChange`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from refusal_eval.config.kinds import CHANGES

if TYPE_CHECKING:
    from refusal_eval.ask.render import Renderer
    from refusal_eval.config.source_entries import Source
    from refusal_eval.core.rubric import ChatMessages
    from refusal_eval.engines.loaded_change import LoadedChange
    from refusal_eval.study.paths import Paths


class Change:
    """A change of a model. Its identity is in the key of every request of the model.

    Attributes:
        name: name in request keys and in the headers of request files, and key of a model's entry.
        shared_key: the key of a model's entry, if it is that of another change: `takes` tells whose a value is.
        words: what a model with it has, for messages: `a LoRA adapter`.
        loads: whether an engine load serves it; else it is in the requests themselves.
        engine_needs: what the engine must be able to do (`config.engine_entry.Capability`).
        at_positions: whether it is done at tokens of the prompt, which each request names. A request without such
            tokens is that of the model without the change.
        of_prompts: whether it changes the prompts that the model is asked, and nothing else: no load serves it, and it
            is in no key, for requests differ by their prompts already.
        own_load: whether a model with it shares no engine load with others.
        has_source: whether its value in an entry is where files come from (`config.source_entries.Source`).
        wants: what is taken from there, in one word, as lists of downloads show it.
        captured: whether activations can be captured under it.
        may_spoil: whether it may change more of answers than whether they refuse, so that a table shows what.
        load_code, words_code, damage_code, made_up_code: `module:function` for `loaded`, `methods_words`, `damage_by`
            and `made_up`. They are no imports: the code of a load, or of a report, must not make requests again.
    """

    name: ClassVar[str]
    words: ClassVar[str]
    shared_key: ClassVar[str] = ""
    loads: ClassVar[bool] = True
    engine_needs: ClassVar[tuple[str, ...]] = ("model_changes",)
    at_positions: ClassVar[bool] = False
    of_prompts: ClassVar[bool] = False
    own_load: ClassVar[bool] = False
    has_source: ClassVar[bool] = False
    wants: ClassVar[str] = ""
    captured: ClassVar[bool] = False
    may_spoil: ClassVar[bool] = False
    load_code: ClassVar[str] = ""
    words_code: ClassVar[str] = ""
    damage_code: ClassVar[str] = ""
    made_up_code: ClassVar[str] = ""

    @property
    def key(self) -> str:
        """The key of a model's entry."""
        return self.shared_key or self.name

    def takes(self, value: Any) -> bool:
        """Tell whether a value of its key, validated or plain, is its own, and not that of a change with the same."""
        return True

    def value_in(self, entry: Any) -> Any:
        """Return its value in a model's entry, validated or plain; None where the model has no such change."""
        value = (entry if isinstance(entry, Mapping) else vars(entry)).get(self.key)
        return value if value is not None and self.takes(value) else None

    def not_captured(self, value: Any) -> str | None:
        """Return why activations cannot be captured under this value of an entry, as words after the model's name."""
        return None

    def made_from(self, value: Any) -> list[tuple[str, str]]:
        """Return what a value of an entry is made from: use of activations (`ActivationUse.name`) and name of each."""
        return []

    def fitted_prompts(self, value: Any) -> bool:
        """Return whether a value of an entry lets its model be evaluated on prompts that it was made from."""
        return False

    def identity_files(self, paths: Paths, model: str) -> list[str]:
        """Return the file that says what identifies the change, as a list; none where the model's entry says it."""
        return []

    def loaded_files(self, paths: Paths, model: str) -> list[str]:
        """Return the file that a load is given, as a list."""
        return self.identity_files(paths, model)

    def asked_prompts(self, paths: Paths, model: str, split: str) -> str:
        """Return the file with the prompts of a split as the model is asked them, of a change `of_prompts`."""
        raise NotImplementedError

    def splits_read(self, value: Any) -> list[str]:
        """Return the splits whose prompts a value of an entry takes; the study need not evaluate them."""
        return []

    def values_read(self, value: Any) -> list[str]:
        """Return the values of words that a value of an entry takes, by their names in the study."""
        return []

    def source(self, value: Mapping[str, Any]) -> Source:
        """Return the source that a value in an entry is."""
        raise NotImplementedError

    def wanted_names(self, names: Iterable[str]) -> list[str]:
        """Return those of a repository's files that are taken from its source."""
        raise NotImplementedError

    def request_params(self, entry: Mapping[str, Any], evaluated: bool) -> dict[str, Any]:
        """Return what decides the requests of a cell: the change's value, or that there is one if a file says the rest.

        Without it nothing would show that a change was taken away.

        Args:
            entry: the model's.
            evaluated: whether the study evaluates the cell, and does not only capture activations of it.
        """
        if self.of_prompts:
            return {"prompts_changed_by": self.name}
        return {self.name: True if self.loads else entry[self.key]}

    def positions(
        self, renderer: Renderer, messages: ChatMessages, row: Mapping[str, Any], described: Mapping[str, Any]
    ) -> list[int]:
        """Return the tokens of a rendered prompt that the change is done at; none leave the request unchanged.

        Args:
            messages: what is rendered.
            row: the prompt.
            described: content of the identity file, or the value in the entry.

        Raises:
            UserError: if they cannot be found with this tokenizer or template.
        """
        raise NotImplementedError

    def check_prompts(
        self, rows: Sequence[Mapping[str, Any]], described: Mapping[str, Any], request: Mapping[str, Any]
    ) -> None:
        """Raise `UserError` for prompts that a model with this change must not be asked.

        Args:
            rows: the cell's prompts.
            described: content of the identity file, or the value in the entry.
            request: what decides the cell's requests (`workflow.generation.request_params`).
        """

    def identity(self, described: Mapping[str, Any]) -> dict[str, Any]:
        """Return the part of the request key; its form never changes.

        Args:
            described: content of the identity file, or the value in the entry.
        """
        return dict(described)

    def sent(self, identity: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a request to our own servers that ask for it, of a change that no load serves.

        Args:
            identity: see `identity`; with `positions`, the tokens, of a change `at_positions`.
        """
        return {}

    def served_as(self, identity: Mapping[str, Any]) -> str | None:
        """Return the name under which an engine serves a model with this change; None where it is the engine's own."""
        return None

    def loaded(self, files: Sequence[str], folder: Path = Path()) -> LoadedChange:
        """Return what a load does with the changes of its models, by the function that `load_code` names.

        Args:
            files: the loaded file of each model.
            folder: the study's, to which paths in these files are relative.
        """
        loaded: LoadedChange = named(self.load_code)(files, folder)
        return loaded

    def made_up(self, weights: str, folder: Path, alike: bool) -> LoadedChange:
        """Return a made-up change, which `check --model` serves in place of a model's own if `made_up_code` names one.

        Args:
            weights: the folder of the model's weights.
            folder: where its files go.
            alike: whether it makes all tokens of all prompts equally likely; else it has no effect.
        """
        loaded: LoadedChange = named(self.made_up_code)(weights, folder, alike)
        return loaded

    def damage_by(self, serving: Mapping[str, Any]) -> str | None:
        """Return why responses in the store are not those of their models, if they were served so; None if they are.

        Args:
            serving: the serving record of the load that wrote them, perhaps an earlier version's.
        """
        return named(self.damage_code)(serving) if self.damage_code else None

    def in_manifest(self, described: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return what the study's manifest says of the changes of its models.

        Args:
            described: content of the identity file of each model.
        """
        return {}

    def methods_words(self, value: Mapping[str, Any], manifest: Mapping[str, Any], model: str) -> str:
        """Return what the methods section says of a model with this change, by the function that `words_code` names.

        Args:
            value: that in the model's entry.
            manifest: the study's.
            model: the model's name.
        """
        return str(named(self.words_code)(value, manifest, model))


def named(code: str) -> Any:
    """Return what `module:name` names."""
    module, name = code.split(":")
    return getattr(importlib.import_module(module), name)


def changes() -> list[Change]:
    """Return all changes of models."""
    return [CHANGES.get(name)() for name in CHANGES.names()]


def changes_of(entry: Any) -> list[Change]:
    """Return the changes of a model's entry, validated or plain."""
    return [change for change in changes() if change.value_in(entry) is not None]


def source_fields() -> list[tuple[str, str]]:
    """Return the fields of entries that hold a source, as section of the catalogue and field."""
    of_models = [("models", change.key) for change in changes() if change.has_source]
    return [("engines", "weights"), *of_models, ("splits", "source"), ("gold", "source")]
