"""What the published code asks a model: its prompt's token ids (its sampling: fixed.py)."""

from refusal_eval.ask.render import Messages, Renderer
from refusal_eval.core.errors import UserError


def published_token_ids(renderer: Renderer, messages: Messages, longest: int) -> list[int]:
    """Return a prompt's token ids as the published code makes them.

    White space is stripped from the question and from the rendered template, so that the line break after the
    assistant's header is missing. The text is then tokenized with the tokenizer's own special tokens, although a
    template may have written them already: tokenizers that add a BOS double it. Of what is longer than `longest`, the
    end is kept.

    Args:
        renderer: the model's renderer.
        messages: the question; a system message may stand before it.
        longest: tokens that a prompt may have (`max_model_len` less `max_tokens`).

    Raises:
        UserError: if no room is left for a prompt, or the template refuses the messages.
    """
    if longest < 1:
        raise UserError(f"max_tokens leaves no room for a prompt: {longest} tokens")
    stripped = [{**message, "content": message["content"].strip()} for message in messages]
    ids = list(renderer.tokenizer(renderer.text(stripped).strip(), add_special_tokens=True)["input_ids"])
    return ids[-longest:]
