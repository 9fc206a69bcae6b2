"""A transform: what a model is asked in place of a prompt. Each kind is one class in a module beside this one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

from refusal_eval.config.kinds import Kinds, OfKind
from refusal_eval.config.problems import Mistake
from refusal_eval.config.shapes import Entry

PlainPrompt = Mapping[str, Any]  # a line of prompts/{split}.jsonl
AskedMessages = list[dict[str, str]]

# Why a prompt keeps its own text, as files and results name it, and in words.
NO_FIELD, NOT_WRITTEN, SAME, NO_WORD = "no_field", "not_written", "same", "no_word"
REASONS = {
    NO_FIELD: "a column of the text is empty",
    NOT_WRITTEN: "it was not rewritten",
    SAME: "the transform changes nothing",
    NO_WORD: "the attribution gives no word",
}

TRANSFORMS = Kinds("transform", "TRANSFORMS")


class Transform(Entry):
    """What all transforms have."""

    kind: str

    def fields(self) -> list[str]:
        """Return the columns that it reads of each prompt, which its split must keep."""
        return []

    def splits_read(self) -> list[str]:
        """Return the splits whose prompts it takes."""
        return []

    def values_read(self) -> list[str]:
        """Return the values of words of the study that it takes the word for `{focus}` from."""
        return []

    def mistakes(self, study: Any, model: Any) -> Iterator[Mistake]:
        """Yield what is wrong with it in its study, with the key of the transform.

        Args:
            study: the study while it is checked (`config.checked_study.CheckedStudy`).
            model: the entry of its model.
        """
        yield from ()

    def transformer(self, read: Sequence[Sequence[PlainPrompt]]) -> Callable[[PlainPrompt], AskedMessages | str]:
        """Return what turns a prompt into the messages that are asked, or says why it keeps its own (`REASONS`).

        Args:
            read: the prompts of each split of `splits_read`.

        Raises:
            UserError: if these do not say what to ask.
        """
        raise NotImplementedError

    def in_words(self, quoted: Callable[[str], str], label: Callable[[str], str]) -> str:
        """Return what the model was asked, for the methods section, behind "asked with".

        Args:
            quoted: makes a text of a user's fit for it.
            label: returns how tables call a split.
        """
        raise NotImplementedError


AnyTransform = Annotated[Transform, OfKind(TRANSFORMS)]


def last_turn(messages: Sequence[Mapping[str, str]]) -> int:
    """Return the place of the last message of the user."""
    return max(place for place, message in enumerate(messages) if message["role"] == "user")
