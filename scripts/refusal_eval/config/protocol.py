"""Protocols: how a study asks its models and scores their answers. A feature may add those of other people's code.

`PROTOCOLS` (config/kinds.py) finds the classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from refusal_eval.config.problems import Mistake

if TYPE_CHECKING:
    from refusal_eval.ask.render import Renderer
    from refusal_eval.config.checked_study import CheckedStudy
    from refusal_eval.core.rubric import ChatMessages

DEFAULT = "default"


class Protocol:
    """How a study asks and scores: this one as the documentation says, what derives from it as other code does.

    What a protocol decides of requests is in their keys.

    Attributes:
        name: value of the study's key `protocol`.
        sampling: what it asks whatever the models say.
        keeps_copies: whether rows with the same prompt are asked and scored each.
        judges_whole: whether responses are judged whole, whatever marks they hold.
        renders: whether `token_ids` makes the prompts.
        scores: noun of the files with its own c(x) of each cell; none where c(x) is computed with the scores.
        note: what is said below tables and figures.
    """

    name: ClassVar[str] = DEFAULT
    sampling: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    keeps_copies: ClassVar[bool] = False
    judges_whole: ClassVar[bool] = False
    renders: ClassVar[bool] = False
    scores: ClassVar[str] = ""
    note: ClassVar[str] = ""

    def token_ids(self, renderer: Renderer, messages: ChatMessages, longest: int) -> list[int]:
        """Return a prompt's token ids.

        Args:
            messages: the question; a system message may stand before it.
            longest: tokens that a prompt may have (`max_model_len` less `max_tokens`).

        Raises:
            UserError: if no room is left for a prompt, or the template refuses the messages.
        """
        raise NotImplementedError

    def mistakes(self, study: CheckedStudy) -> Iterator[Mistake]:
        """Yield what it cannot do of what a study asks."""
        yield from ()
