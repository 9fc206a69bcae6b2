"""Keys that features bring: to a study file, to the entry of a model, and to a validated study.

Such keys are the fields of one class in the folder of their feature. The class of the noun is put together with them
where it is defined (`with_feature_keys`), so that everything that reads its fields knows them too.
"""

import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

from refusal_eval.config.shapes import Entry
from refusal_eval.core.registry import Registry

EntryT = TypeVar("EntryT", bound=type[Entry])


class PromptRequests(NamedTuple):
    """How many requests a feature makes of one prompt."""

    of_prompt: Callable[[Mapping[str, Any]], int]  # of a line of prompts/{split}.jsonl
    of_tokens: Callable[[float], float]  # about how many of a prompt of so many tokens, while there is none yet
    longer: float = 0.0  # tokens behind each prompt


class ProbeAsked(NamedTuple):
    """What a key of a study asks one of its models for besides answers, one token each."""

    model: str
    split: str
    number: PromptRequests
    after_answers: bool = False  # whether its requests are made of the model's answers on the split


class WordValues(NamedTuple):
    """Values of the words of a split's prompts, by what a model says of them, which changes of models may read."""

    model: str
    split: str
    file: str  # noun of the file, whose first wildcard is the name of the values
    after_answers: bool = False  # whether they are made of the model's answers


STUDY_KEYS = Registry("keys of a study", "STUDY_KEYS")
MODEL_KEYS = Registry("keys of a model", "MODEL_KEYS")
SPLIT_KEYS = Registry("keys of a split", "SPLIT_KEYS")
# The entries in use of a section of the catalogue: `{noun}_entries`.
CONFIG_KEYS = Registry("keys of a validated study", "CONFIG_KEYS")
# The class is the schema of one entry of the section.
SECTIONS = Registry("section of the catalogue", "SECTIONS")

# Functions that yield the mistakes of a study (`config.checked_study.CheckedStudy`).
CHECKS = Registry("check of a study", "CHECKS")


class FeatureKeys(Entry):
    """Keys that one feature brings.

    Attributes:
        makes_several: the key of a model by which its entry stands for several models; None if there is none.
        in_methods: those keys of a study that its methods section speaks of.
        family_requests: noun of the request files of families (`family`), which rules of the feature write.
        probe_requests: noun of the request files of what `probes` asks, likewise.
    """

    makes_several: ClassVar[str | None] = None
    in_methods: ClassVar[tuple[str, ...]] = ()
    family_requests: ClassVar[str] = ""
    probe_requests: ClassVar[str] = ""

    @classmethod
    def of(cls, entry: Entry) -> Self:
        """Return an entry, typed as one with these keys."""
        assert isinstance(entry, cls)
        return entry

    @classmethod
    def curves(cls, models: Mapping[str, Any], entries: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, float]]:
        """Return the doses, ascending, of models that differ in nothing else by these keys: by model, and by curve.

        Args:
            models: entries of models, in order.
            entries: those of sections of the catalogue.
        """
        return {}

    def family(self) -> str | None:
        """Return the name of the family of a model, None for a model by itself.

        The models of a family share engine loads, which the feature asks for more on each split under this name.
        """
        return None

    def probes(self) -> dict[str, ProbeAsked]:
        """Return what the keys of a study ask its models for besides answers, by the name of each.

        Engine loads of the models' answers ask it too, or those after them what is made of the answers. The name is the
        first wildcard of its request file.
        """
        return {}

    def word_values(self) -> dict[str, WordValues]:
        """Return what the keys of a study give values to words by, by the name of each."""
        return {}

    def named_columns(self) -> dict[str, Any]:
        """Return the columns that the keys of a split name, as a mapping of these keys."""
        return {}

    def reading(self) -> dict[str, Any]:
        """Return what decides the prompts of a split with these keys."""
        return {}

    def several(self, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the models for which an entry with the key `makes_several` stands: name, and the keys that change.

        Args:
            name: the entry's.
        """
        yield from ()


def word_values_of(study: Any) -> dict[str, WordValues]:
    """Return all values of words of a study, by name.

    Args:
        study: its entry, with the keys of all features.
    """
    every = [STUDY_KEYS.get(name).word_values(study) for name in STUDY_KEYS.names()]
    return {name: values for found in every for name, values in found.items()}


def with_feature_keys(registry: Registry) -> Callable[[EntryT], EntryT]:
    """Return a decorator that gives the class of a noun the keys of all features as further fields."""

    def put_together(noun: EntryT) -> EntryT:
        keys = tuple(registry.get(name) for name in reversed(registry.names()))  # fields come from the last base first
        body = {"__module__": noun.__module__, "__doc__": noun.__doc__}
        return types.new_class(noun.__name__, (*keys, noun), exec_body=lambda names: names.update(body))  # type: ignore[return-value]

    return put_together
