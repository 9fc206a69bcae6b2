"""Where a model's reasoning ends and its answer begins, in the token ids of a response.

Three ways to tell: the tokens of an end mark, the text of one that is no token by itself, and the channels of harmony
(gpt-oss). Only the answer is judged, and only its tokens weigh.
"""

import bisect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from refusal_eval.core.errors import UserError

Decode = Callable[[Sequence[int]], str]

# Special tokens of the harmony format, as https://github.com/openai/harmony describes it.
HARMONY_START, HARMONY_CHANNEL, HARMONY_MESSAGE = "<|start|>", "<|channel|>", "<|message|>"
HARMONY_ENDS = ("<|end|>", "<|return|>", "<|call|>", "<|endoftext|>")
HARMONY_FINAL = "final"


@dataclass(frozen=True)
class Segments:
    """The range of the answer's tokens in a response: [begin, end). `begin` is None without an answer.

    `text` is the answer's text if its tokens alone do not determine it, else None.
    """

    begin: int | None
    end: int
    text: str | None = None


@dataclass(frozen=True)
class ReasoningMarks:
    """Marks around the reasoning: runs of token ids, or text.

    Reasoning ends with the first end mark; what follows it is the answer. A response without an end mark is all answer,
    unless its reasoning was opened, by the prompt or by a start mark of its own. Without a start mark every response
    counts as beginning inside the reasoning: truncated reasoning must not be judged.

    How a text is tokenized depends on its neighbours (`>` and a line break may be one token), so marks of text are
    searched in the decoded ids, and the answer's tokens are those that begin after the end mark.
    """

    end: tuple[int, ...] | str
    start: tuple[int, ...] | str | None
    decode: Decode

    def segments(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> Segments:
        """Return the segment behind the first end mark, with its text: a token may hold an end and a beginning."""
        length = len(token_ids)
        if not isinstance(self.end, str):
            if (at := find(token_ids, self.end)) is not None:
                return Segments(at + len(self.end), length)
        elif self.end in (text := self.decode(token_ids)):
            begin = _least(length, lambda n: self._holds(token_ids[:n], self.end))
            return Segments(begin, length, text.split(self.end, 1)[1])
        opened = self.start is None or any(
            self._holds(ids, self.start) for ids in (token_ids, self._behind_last_end(prompt_ids))
        )
        return Segments(None if opened else 0, length)

    def _holds(self, ids: Sequence[int], mark: tuple[int, ...] | str) -> bool:
        return mark in self.decode(ids) if isinstance(mark, str) else find(ids, mark) is not None

    def _behind_last_end(self, prompt_ids: Sequence[int]) -> Sequence[int]:
        """Return the part of a prompt that may leave the reasoning open: what no end mark follows."""
        if isinstance(self.end, str):
            return prompt_ids[_least(len(prompt_ids), lambda n: not self._holds(prompt_ids[n:], self.end)) :]
        at = find(prompt_ids[::-1], self.end[::-1])
        return prompt_ids if at is None else prompt_ids[len(prompt_ids) - at :]


@dataclass(frozen=True)
class Harmony:
    """The channels of harmony: messages to several channels, of which `final` is the answer.

    A message is `<|channel|>NAME`, an optional constraint, `<|message|>`, its text, and an end token.
    """

    start: int
    channel: int
    message: int
    final: tuple[int, ...]
    ends: frozenset[int]

    def segments(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> Segments:
        """Return the text of the first message to the final channel."""
        begin = 0 if self._final_is_open(prompt_ids) else self._final_text(token_ids)
        if begin is None:
            return Segments(None, len(token_ids))
        end = next((i for i in range(begin, len(token_ids)) if token_ids[i] in self.ends), len(token_ids))
        return Segments(begin, end)

    def _final_text(self, token_ids: Sequence[int]) -> int | None:
        """Return where the text of the first final message begins."""
        head = find(token_ids, (self.channel, *self.final))
        if head is None:
            return None
        return next((i + 1 for i in range(head, len(token_ids)) if token_ids[i] == self.message), None)

    def _final_is_open(self, prompt_ids: Sequence[int]) -> bool:
        """Tell whether the prompt itself opened the final channel for the model's message."""
        last = max((i for i, token in enumerate(prompt_ids) if token == self.start), default=None)
        if last is None:
            return False
        begin = self._final_text(prompt_ids[last:])
        return begin is not None and not self.ends & set(prompt_ids[last + begin :])


ReasoningFormat = ReasoningMarks | Harmony


def reasoning_of(entry: Mapping[str, Any] | None, tokenizer: Any, decode: Decode) -> ReasoningFormat | None:
    """Return how a model's reasoning is separated from its answers; None for a model that does not reason.

    Args:
        entry: the model's `reasoning`: {"format": "harmony"}, or marks {"start", "end"}; None if it does not reason.
        tokenizer: the model's tokenizer; not looked at without an entry.
        decode: turns generated ids into text, without special tokens.

    Raises:
        UserError: if the tokenizer has no harmony tokens.
    """
    if not entry:
        return None
    if entry.get("format") == "harmony":
        return _harmony(tokenizer)
    start, end = entry.get("start") or None, str(entry["end"])
    start_ids = mark_ids(start, tokenizer, decode) if start else ()
    end_ids = mark_ids(end, tokenizer, decode)
    # A token that text shows has other ids behind a space or in a word (` ###` is another one than `###`): beside a
    # mark that is found in the text it is surely found there, too.
    if not end_ids and start and decode(start_ids).strip() == start.strip():
        start_ids = ()
    if start and len(start_ids) != 1 and decode(end_ids).strip() == end.strip():
        end_ids = ()
    return ReasoningMarks(end_ids or end, start_ids or start, decode)


def marks_in_text(entry: Mapping[str, Any]) -> ReasoningMarks:
    """Return the marks for a text without known tokens; each letter counts as a token."""
    return ReasoningMarks(str(entry["end"]), entry.get("start"), letters_text)


class Parted(NamedTuple):
    """A text without tokens, parted at its marks: its reasoning, and its answer; None where there is none."""

    reasoning: str | None
    answer: str | None


def parted_text(text: str, entry: Mapping[str, Any], opened: bool) -> Parted:
    """Split a text by `ReasoningMarks` when neither its tokens nor the prompt are known.

    `opened`: whether the prompt leaves the reasoning open (see `opened_before`).
    """
    start, end = entry.get("start"), str(entry["end"])
    before, found, answer = text.partition(end)
    if found:
        return Parted(before.strip().removeprefix(start or ""), answer)
    return Parted(text, None) if opened or not start or start in text else Parted(None, text)


def guess_opened(texts: Iterable[str], entry: Mapping[str, Any]) -> bool:
    """Guess whether unknown prompts opened the reasoning: most texts that end it do not open it."""
    heads = [head for head, end, _ in (text.partition(str(entry["end"])) for text in texts) if end]
    start = str(entry.get("start") or "")
    return bool(start) and sum(start not in head for head in heads) * 2 > len(heads)


def letters_text(numbers: Sequence[int]) -> str:
    return "".join(map(chr, numbers))


def mark_ids(mark: str, tokenizer: Any, decode: Decode) -> tuple[int, ...]:
    """Return the ids by which to find a mark in a response; none for a mark to be searched in the text.

    Ids find a mark of one token, and one with special tokens, which decoded text lacks; white space around those is
    ignored, since a model may write more of it. How other text is tokenized depends on its neighbours.
    """

    def ids_of(text: str) -> tuple[int, ...]:
        return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])

    ids = ids_of(mark)
    if len(ids) == 1:
        return ids
    return () if decode(ids).strip() == mark.strip() else ids_of(mark.strip())


def _harmony(tokenizer: Any) -> Harmony:
    def one(token: str) -> int:
        ids = tokenizer(token, add_special_tokens=False)["input_ids"]
        if len(ids) != 1:
            raise UserError(f"`reasoning: {{format: harmony}}`: the tokenizer has no token `{token}`")
        return int(ids[0])

    return Harmony(
        start=one(HARMONY_START),
        channel=one(HARMONY_CHANNEL),
        message=one(HARMONY_MESSAGE),
        final=tuple(tokenizer(HARMONY_FINAL, add_special_tokens=False)["input_ids"]),
        ends=frozenset(one(token) for token in HARMONY_ENDS),
    )


def find(token_ids: Sequence[int], run: Sequence[int]) -> int | None:
    """Return the position of a run of ids in `token_ids`, or None."""
    width = len(run)
    return next((i for i in range(len(token_ids) - width + 1) if tuple(token_ids[i : i + width]) == tuple(run)), None)


def _least(most: int, holds: Callable[[int], bool]) -> int:
    """Return the least number in 0 .. `most` from which on `holds` is true."""
    return bisect.bisect_left(range(most + 1), True, key=holds)
