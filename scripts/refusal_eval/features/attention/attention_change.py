"""What attention steering changes of a model's requests: they name alpha, the layers and the tokens of the word."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from refusal_eval.config.change import Change
from refusal_eval.core.errors import UserError
from refusal_eval.core.texts import is_blank
from refusal_eval.features.attention.focus_tokens import focus_tokens
from refusal_eval.weights.known_layers import layers_in

if TYPE_CHECKING:
    from refusal_eval.ask.render import Renderer
    from refusal_eval.core.rubric import ChatMessages


class AttentionChange(Change):
    """Less attention to a word of the prompt. It is in the requests, so that any load of the engine serves it."""

    name: ClassVar[str] = "attention"
    shared_key: ClassVar[str] = "intervention"
    words: ClassVar[str] = "attention steering"
    loads: ClassVar[bool] = False
    engine_needs: ClassVar[tuple[str, ...]] = ("steers_attention",)
    at_positions: ClassVar[bool] = True
    may_spoil: ClassVar[bool] = True
    words_code: ClassVar[str] = "refusal_eval.features.attention.attention_words:attention_words"

    def takes(self, value: Any) -> bool:
        """Tell whether an intervention is of this kind."""
        return (value.get("kind") if isinstance(value, Mapping) else getattr(value, "kind", None)) == self.name

    def identity(self, described: Mapping[str, Any]) -> dict[str, Any]:
        """Return alpha, and the layers where they are not all; the column is not in it, since the tokens are."""
        layers = described.get("layers")
        return {"alpha": described["alpha"]} | ({} if layers is None else {"layers": sorted(layers)})

    def positions(
        self, renderer: Renderer, messages: ChatMessages, row: Mapping[str, Any], described: Mapping[str, Any]
    ) -> list[int]:
        count = layers_in(renderer.folder)
        if count is not None and (beyond := [layer for layer in described.get("layers") or () if layer >= count]):
            raise UserError(f"`layers` names {beyond[0]}, and the model has {count} layers, counted from 0")
        word = row["source"].get("kept", {}).get(described["span"])
        return [] if word is None or is_blank(word) else focus_tokens(renderer, messages, word)

    def sent(self, identity: Mapping[str, Any]) -> dict[str, Any]:
        return {self.name: dict(identity)} if "positions" in identity else {}
