"""From messages to the exact token ids sent to an engine: tokenizer, template, system prompt, stop tokens."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from unittest import mock

from pydantic import BaseModel, BeforeValidator, Field

from refusal_eval.ask.template_probe import chosen_shapes, header_note, message_notes, option_notes
from refusal_eval.config.shapes import GIVEN_BY_US
from refusal_eval.core.cpu_limit import TookTooLong, cpu_limit
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json_as
from refusal_eval.core.hints import nearest
from refusal_eval.core.rubric import ChatMessages
from refusal_eval.core.template_file import read_template

RENDER_SECONDS = 60.0  # of a prompt, which may be very long and is also made into tokens
MOST_CONSTANTS = 60  # of a template that an option's value is compared with


@dataclasses.dataclass(eq=False)
class Renderer:
    """Renders the prompts of one model (or of one judge) with its pinned tokenizer and template."""

    folder: str | Path  # of the tokenizer, in the hub's format
    template: str = "default"  # the tokenizer's own; `none` (plain text for base models), or the path of a Jinja file
    template_options: Mapping[str, Any] | None = None  # variables for the template
    system_prompt: str | None = None  # put before every prompt
    date: str | datetime.date = "2026-01-01"  # that templates take for today; the clock must not change a key
    trust_remote_code: bool = False  # run tokenizer code that the model repository ships
    # Read control tokens in the messages (`<|im_end|>` in an answer that is judged) as plain text; under
    # `template: none` also those of a judge's rubric, which are in the same message.
    untrusted: bool = False
    prefill: str | None = None  # text with which the reply is to begin, behind the prompt; its control tokens count
    frame: bool = False  # put the tokenizer's own marks around it (`[CLS]`, `<s>`), as classifiers were trained to see

    def __post_init__(self) -> None:
        # Without this, transformers warns at every start that it found no PyTorch; we want none here.
        os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
        from transformers import AutoTokenizer

        try:
            self.tokenizer: Any = AutoTokenizer.from_pretrained(
                str(self.folder), local_files_only=True, trust_remote_code=self.trust_remote_code
            )
        except (OSError, ValueError) as error:
            raise UserError(f"{self.folder}: the tokenizer cannot be loaded: {error}") from error
        own = self.template not in ("default", "none")
        self._own_template = read_template(self.template) if own else None
        self._head, self._tail = self._frame() if self.frame else ([], [])
        self._control = _control_pieces(self.tokenizer) if self.untrusted else None
        self._day = datetime.date.fromisoformat(str(self.date))
        if self.template == "default" and not self.tokenizer.chat_template:
            raise UserError(
                f"{self.folder} has no chat template. Give the model its own (`template: file.jinja`), "
                "or `template: none` if it is a base model that continues text."
            )
        self._constants: Sequence[Any] = ()  # texts and numbers in the template that an option may be compared with
        if self.template_options and self.template != "none":
            self._check_options(self.template_options)

    @classmethod
    def from_params(cls, tokenizer_folder: str | Path, params: Mapping[str, Any], untrusted: bool = False) -> Renderer:
        """Return the renderer that a rule's params describe (see `rendering_params` in workflow/generation.py)."""
        names = ("template", "template_options", "system_prompt", "date", "trust_remote_code")
        how = {name: params[name] for name in names}
        how |= {name: params[name] for name in ("prefill", "frame") if name in params}
        return cls(tokenizer_folder, **how, untrusted=untrusted)

    def token_ids(self, messages: ChatMessages) -> list[int]:
        """Return the prompt's token ids: exactly those of the chat template, and of the prefill if there is one.

        Raises:
            UserError: if the template cannot render these messages.
        """
        begun = list(self.tokenizer(self.prefill, add_special_tokens=False)["input_ids"]) if self.prefill else []
        if self.template == "none":
            return self._plain_ids(self._plain_text(messages)) + begun
        # In one step, so that a tokenizer which adds a BOS by itself does not double the template's.
        sanitize = {"sanitize_control_tokens": True} if self.untrusted else {}
        rendered = list(self._apply_template(messages, tokenize=True, return_dict=False, **sanitize))
        return self._head + rendered + begun + self._tail

    def framed(self, text: str, most: int, end: bool = False) -> list[int]:
        """Return the first (or last) `most` token ids of a text between the tokenizer's own marks."""
        how = {"add_special_tokens": False, "split_special_tokens": self.untrusted}
        token_ids = list(self.tokenizer(self._apart(text), **how)["input_ids"])
        return self._head + (token_ids[-most:] if end else token_ids[:most]) + self._tail

    def prompt(self, messages: ChatMessages) -> list[int]:
        """Return the prompt as its engine takes it.

        Raises:
            UserError: if the template cannot render these messages, or leaves one out.
        """
        self.check_all_rendered(messages)
        return self.token_ids(messages)

    def check_all_rendered(self, messages: ChatMessages) -> None:
        """Raise `UserError` if the template leaves out a message, as some do with system messages, or cuts one.

        Not of the assistant's: there it may well leave out the reasoning.
        """
        if self.template == "none":
            return
        rows, rendered = with_system_prompt(messages, self.system_prompt), self.text(messages)
        given = [
            (number, row) for number, row in enumerate(rows) if row["role"] != "assistant" and row["content"].strip()
        ]
        if _in_order([row["content"] for _, row in given], rendered):
            return
        # A template may change what it renders, or look for a word in it; what it leaves out can be any other text.
        for number, row in given:
            same = partial(self._same_with, rows, number, rendered)
            what = f"the message of role `{row['role']}` that begins {row['content'][:40]!r}"
            right = (
                "so that the model would not see it. Give the model a template that renders it (`template: "
                "file.jinja`), or remove it from the `system_prompt` or the split"
            )
            if same(f"{row['content']} and {row['content']}", "x"):
                raise UserError(f"{self._template_words} leaves out {what}, {right}")
            start, end = (len(row["content"]) - len(row["content"].lstrip()), len(row["content"].rstrip()))
            for part, place in (("beginning", start), ("end", end - 1), ("middle", (start + end) // 2)):
                before, letter, after = row["content"][:place], row["content"][place], row["content"][place + 1 :]
                others = (before + other + after for other in "xq7" if other != letter)
                if not letter.isspace() and same(*others):
                    raise UserError(f"{self._template_words} cuts the {part} of {what}, {right}")

    def probe(self, conversations: Collection[ChatMessages]) -> list[str]:
        """Return what may be wrong with how the template renders such conversations, and its options.

        Raises:
            UserError: if it certainly cuts, changes or leaves out messages, or lacks the header of the reply.
        """
        if self.template == "none":
            return []
        roles = {tuple(row["role"] for row in with_system_prompt(one, self.system_prompt)) for one in conversations}
        shapes, words, notes = chosen_shapes(roles), self._template_words, list[str]()
        for shape in shapes:
            notes += message_notes(self._render, shape, words)
            # What a classifier reads has no reply.
            header = None if self.frame else header_note(self._render, shape, words, self.prefill or "")
            notes += [header] if header else []
        if self.template_options:
            notes += option_notes(self._render, self.template_options, shapes, self._constants)
        return list(dict.fromkeys(notes))

    def mark_note(self, messages: ChatMessages) -> str | None:
        """Return a note on tokenizer marks that are doubled or misplaced in a prompt; None if all is well."""
        ids, bos, eos = self.token_ids(messages), self.tokenizer.bos_token_id, self.tokenizer.eos_token_id
        if bos is not None and ids[:2] == [bos, bos]:
            why = ": the tokenizer adds it, and the prompts hold it" if self.template == "none" else ""
            twice = f"prompts begin with `{self.tokenizer.bos_token}` twice{why}"
            return f"{twice}; leave it out of the prompts or the template"
        if self.frame:
            return None
        if eos is not None and ids[-1:] == [eos] and not self.prefill:
            last = f"prompts end with `{self.tokenizer.eos_token}`, after which nothing is to be said"
            if self.template != "none":
                return f"{last}: the template writes it"
            if not self._plain_text(messages).endswith(self.tokenizer.eos_token):
                return f"{last}: the tokenizer adds it"
        return self._double_rendering_note(messages, ids[0] if ids else None)

    def _double_rendering_note(self, messages: ChatMessages, first: int | None) -> str | None:
        """Return a note if a prompt seems to be rendered already, else None. `first` is its first token as sent."""
        added = self.tokenizer.added_tokens_decoder.items()
        special = {index: token.content for index, token in added if token.special}
        hint = "if they were rendered elsewhere, give the messages alone and let the chat template render them"
        if self.template == "none":
            text = self._apart(self._plain_text(messages))
            begun = next(iter(self.tokenizer(text, add_special_tokens=False)["input_ids"]), None)
            if begun == first or not {begun, first} <= set(special):
                return None
            return f"prompts begin with `{special[begun]}`, and the tokenizer puts `{special[first]}` before it: {hint}"
        begins = [row["content"].lstrip() for row in messages if row["role"] != "assistant"]
        held = [token for token in special.values() if any(text.startswith(token) for text in begins)]
        if held and held[0] in self._render([{**row, "content": "x"} for row in messages]):
            return f"messages begin with `{held[0]}`, which the template writes as well: {hint}"
        return None

    def _render(self, rows: ChatMessages, options: Mapping[str, Any] | None = None, generation: bool = True) -> str:
        return str(self._fill_template(rows, options, generation, tokenize=False))

    def _same_with(self, rows: ChatMessages, number: int, rendered: str, *others: str) -> bool:
        """Tell whether replacing one message by each of `others` leaves the prompt's text unchanged."""
        return all(self._with(rows, number, other) == rendered for other in others)

    def _with(self, rows: ChatMessages, number: int, content: str) -> str:
        """Return messages as text, with another content of one of them."""
        other = [*rows[:number], {**rows[number], "content": content}, *rows[number + 1 :]]
        return str(self._fill_template(other, tokenize=False)) + (self.prefill or "")

    def stop_token_ids(self) -> list[int]:
        return stop_token_ids(self.folder, self.tokenizer.eos_token_id)

    def text(self, messages: ChatMessages) -> str:
        """Return the rendered prompt as text, before it is turned into token ids."""
        plain = self.template == "none"
        rendered = self._plain_text(messages) if plain else str(self._apply_template(messages, tokenize=False))
        return rendered + (self.prefill or "")

    def next_token_ids(self, messages: ChatMessages, continuation: str) -> list[int] | None:
        """Return the ids that `continuation` adds to the rendered prompt; None if it changes the prompt's own ids."""
        before, whole = self.token_ids(messages), self.text(messages) + continuation
        if self.template == "none":
            after = self._plain_ids(whole)
        else:
            after = list(self.tokenizer(whole, add_special_tokens=False)["input_ids"])
        return after[len(before) :] if after[: len(before)] == before else None

    def decode(self, token_ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(token_ids), skip_special_tokens=True))

    def _plain_ids(self, text: str) -> list[int]:
        """Return the ids of a text under `template: none`; control tokens in untrusted text become plain characters."""
        return list(self.tokenizer(self._apart(text), split_special_tokens=self.untrusted)["input_ids"])

    def _apart(self, text: str) -> str:
        """Return a text without control tokens that this tokenizer would find in plain text: `< s>` for `<s>`."""
        if self._control is None:
            return text
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        normalizer = backend.normalizer if backend else None  # may write `<s>` for letters that look like it
        seen = normalizer.normalize_str(text) if normalizer else text
        apart = self._control.sub(lambda found: f"{found[0][0]} {found[0][1:]}", seen)
        return text if apart == seen else apart

    def _frame(self) -> tuple[list[int], list[int]]:
        """Return the ids that the tokenizer puts before and behind a text."""
        bare = list(self.tokenizer("a", add_special_tokens=False)["input_ids"])
        framed = list(self.tokenizer("a")["input_ids"])
        for start in range(len(framed) - len(bare) + 1):
            if framed[start : start + len(bare)] == bare:
                return framed[:start], framed[start + len(bare) :]
        raise UserError("the tokenizer changes a text when it frames it; it cannot be used for a classifier")

    @property
    def _template_words(self) -> str:
        return f"the chat template of {self.folder}" if self._own_template is None else f"the template {self.template}"

    def _check_options(self, options: Mapping[str, Any]) -> None:
        """Raise `UserError` for an option that the template does not look at: it would have no effect."""
        from jinja2 import meta, nodes
        from jinja2.exceptions import TemplateError
        from transformers.utils import chat_template_utils

        try:
            source = self.tokenizer.get_chat_template(self._own_template, options.get("tools"))
            # The template's own environment: it knows more tags than Jinja.
            read = chat_template_utils._compile_jinja_template(source).environment.parse(source)
        except (TemplateError, ValueError) as error:
            raise UserError(f"{self._template_words} cannot be used: {error}") from error
        constants = (node.value for node in read.find_all(nodes.Const))
        short = (one for one in constants if isinstance(one, int | float) or (isinstance(one, str) and len(one) <= 20))
        self._constants = list(dict.fromkeys(short))[:MOST_CONSTANTS]
        known = meta.find_undeclared_variables(read) - set(GIVEN_BY_US)
        for name in options:
            if name not in known:
                what = f"`template_options` names `{name}`, which {self._template_words} does not use"
                raise UserError(what + nearest(name, known))

    def _apply_template(self, messages: ChatMessages, **how: Any) -> Any:
        own = [{**message, "content": self._apart(message["content"])} for message in messages]
        return self._fill_template(with_system_prompt(own, self.system_prompt), **how)

    def _fill_template(
        self, rows: ChatMessages, options: Mapping[str, Any] | None = None, generation: bool = True, **how: Any
    ) -> Any:
        from jinja2.exceptions import TemplateError

        options = (self.template_options or {}) if options is None else options
        try:
            with _clock_at(self._day), cpu_limit(RENDER_SECONDS):
                return self.tokenizer.apply_chat_template(
                    rows,
                    chat_template=self._own_template,
                    add_generation_prompt=generation,
                    **how,
                    **options,
                )
        except TemplateError as error:
            raise UserError(f"the chat template refuses these messages: {error}") from error
        except TookTooLong as error:
            raise UserError(f"{self._template_words} takes more than {RENDER_SECONDS:g} s for one prompt") from error
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:  # of its own expressions
            kind = type(error).__name__
            raise UserError(f"the chat template cannot render these messages: {kind}: {error}") from error

    def _plain_text(self, messages: ChatMessages) -> str:
        rows = with_system_prompt(messages, self.system_prompt)
        if [row["role"] for row in rows if row["role"] != "system"] != ["user"]:
            raise UserError("`template: none` takes one user message per prompt (and a system prompt before it)")
        return "".join(row["content"] for row in rows)


def _in_order(texts: Sequence[str], rendered: str) -> bool:
    """Tell whether these texts occur in a rendered one in this order, ignoring white space."""
    whole, place = " ".join(rendered.split()), 0
    for text in (" ".join(text.split()) for text in texts):
        if (found := whole.find(text, place)) < 0:
            return False
        place = found + len(text)
    return True


def _control_pieces(tokenizer: Any) -> re.Pattern[str] | None:
    """Return what finds control tokens that a tokenizer also makes of their letters; None for most tokenizers.

    SentencePiece's unigram models do (XLM-R, DeBERTa-v3): `<s>` is a piece of their vocabulary like any other.
    """
    tokens = {index: token.content for index, token in tokenizer.added_tokens_decoder.items() if token.special}
    if not tokens:
        return None
    read = tokenizer(list(tokens.values()), add_special_tokens=False, split_special_tokens=True)["input_ids"]
    found = [text for (index, text), ids in zip(tokens.items(), read, strict=True) if index in ids]
    return re.compile("|".join(map(re.escape, sorted(found, key=len, reverse=True)))) if found else None


@dataclasses.dataclass(frozen=True)
class MessagePrompts:
    """Prompts of an engine that takes messages: it has a template and a tokenizer of its own."""

    system_prompt: str | None  # put before every prompt

    def prompt(self, messages: ChatMessages) -> list[dict[str, str]]:
        """Return the prompt as its engine takes it: roles and texts."""
        rows = with_system_prompt(messages, self.system_prompt)
        return [{"role": row["role"], "content": row["content"]} for row in rows]

    def stop_token_ids(self) -> list[int]:
        # The engine ends an answer by itself.
        return []


def renderer_of(
    tokenizer_folder: str | Path | None, params: Mapping[str, Any], untrusted: bool = False
) -> Renderer | MessagePrompts:
    """Return what makes prompts for an engine: token ids with its tokenizer, or messages for one that has none."""
    if tokenizer_folder is None:
        return MessagePrompts(params["system_prompt"])
    return Renderer.from_params(tokenizer_folder, params, untrusted)


def with_system_prompt(messages: ChatMessages, system_prompt: str | None) -> list[dict[str, str]]:
    """Return messages that begin with a model's system prompt, if it has one."""
    rows = [dict(message) for message in messages]
    if system_prompt is None:
        return rows
    if rows and rows[0]["role"] == "system":
        # The prompt's own system message belongs to the prompt, the model's to the model: both are kept.
        rows[0]["content"] = f"{system_prompt}\n\n{rows[0]['content']}"
        return rows
    return [{"role": "system", "content": system_prompt}, *rows]


@contextlib.contextmanager
def _clock_at(day: datetime.date) -> Iterator[None]:
    """Let chat templates that insert today's date see `day`. Their `strftime_now` takes no other way in."""
    from transformers.utils import chat_template_utils

    class Clock:
        @staticmethod
        def now() -> datetime.datetime:
            return datetime.datetime.combine(day, datetime.time(12))

    with mock.patch.object(chat_template_utils, "datetime", Clock):
        yield


class StopTokens(BaseModel):
    """What a model's generation_config.json or config.json says about the end of an answer."""

    eos_token_id: Annotated[
        list[Annotated[int, Field(ge=0, lt=2**31)]] | None,
        BeforeValidator(lambda ids: ids if ids is None or isinstance(ids, list) else [ids]),
    ] = None


def stop_token_ids(tokenizer_folder: str | Path, eos_token_id: int | None) -> list[int]:
    """Return the ids that end an answer, in ascending order.

    They are the tokenizer's end-of-sequence token and those of generation_config.json (else config.json). We read
    them here and send them, so that nothing is left to what the server finds in the folder; all its other defaults
    (top_k, penalties, ...) are not taken over.

    Raises:
        UserError: if such a file is damaged, or names what can be no token.
    """
    ids = set() if eos_token_id is None else {eos_token_id}
    for name in ("generation_config.json", "config.json"):
        path = Path(tokenizer_folder, name)
        if path.is_file():
            found = read_json_as(path, StopTokens).eos_token_id
            if found is not None:
                ids |= set(found)
                break
    return sorted(ids)
