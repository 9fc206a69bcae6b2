"""A template of what a writer is asked: a Jinja file, filled with a prompt and with what its split keeps of its row."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import jinja2
from jinja2 import meta, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from refusal_eval.core.cpu_limit import TookTooLong, cpu_limit
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_users_text
from refusal_eval.core.rubric import conversation_text, nonce_of
from refusal_eval.core.text_runs import runs_of
from refusal_eval.core.texts import is_blank

PROMPT, CONVERSATION, NONCE = "prompt", "conversation", "nonce"
OWN = (PROMPT, CONVERSATION, NONCE)
# What it may take for one prompt, and how many times as long as what it is made of its text may be.
FILL_SECONDS, MOST_TIMES, LEAST_LENGTH = 5.0, 20, 10_000


class WritingTemplate:
    """A Jinja file with the variables `prompt`, `conversation`, `nonce`, and one for each column that a split keeps.

    `prompt` is the last turn of the user, `conversation` all messages under lines with their roles. `nonce` is ten
    letters that depend on all of these, for the names of delimiters: no text can close its own.

    Attributes:
        columns: the columns that it names.
        text: the file's text.

    Raises:
        UserError: if it is no template, or shows no prompt.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = path
        if Path(path).exists() and not Path(path).is_file():  # reading a pipe may never end
            raise UserError(f"template {path} is no regular file")
        self.text = read_users_text(path)
        environment = ImmutableSandboxedEnvironment(undefined=jinja2.StrictUndefined, autoescape=False)
        try:
            with cpu_limit(FILL_SECONDS):
                tree = environment.parse(self.text)
                self._template = environment.from_string(self.text)
        except Exception as error:  # a template may fail in any way
            raise self._explanation(error) from error
        named = meta.find_undeclared_variables(tree)
        self.columns = sorted(named - set(OWN))
        self._said = [node.data for node in tree.find_all(nodes.TemplateData)]
        if not named & {PROMPT, CONVERSATION}:
            raise UserError(f"template {path} must contain {{{{ prompt }}}}")

    def filled(self, messages: Sequence[Mapping[str, str]], kept: Mapping[str, str | None]) -> tuple[str, str]:
        """Return what a writer is asked about one prompt, and its nonce.

        Args:
            messages: the prompt's.
            kept: the columns that its split keeps; an empty cell is an empty text.

        Raises:
            UserError: if the template fails, or takes far more time or text than any does.
        """
        cells = {column: kept.get(column) or "" for column in self.columns}
        nonce = nonce_of(messages, "\0".join(cells.values()))
        own = {PROMPT: last_text(messages), CONVERSATION: conversation_text(messages, nonce), NONCE: nonce}
        texts = [*cells.values(), *own.values()]
        most, parts = LEAST_LENGTH + MOST_TIMES * (len(self.text) + sum(map(len, texts))), list[str]()
        try:
            with cpu_limit(FILL_SECONDS):
                for part in self._template.generate(cells | own):
                    parts.append(part)
                    if sum(map(len, parts)) > most:
                        raise ValueError(f"its text is more than {MOST_TIMES} times as long as what it is made of")
        except Exception as error:
            raise self._explanation(error) from error
        text = "".join(parts).strip()
        if is_blank(text):
            raise UserError(f"template {self._path}: nothing is asked about one of the prompts")
        return text, nonce

    def open_variables(self) -> list[str]:
        """Return the variables whose text could close its own delimiters: `nonce` is not before it and behind it."""
        probes = {name: f"PROBE-{name}" for name in (PROMPT, *self.columns)}
        text, nonce = self.filled([{"role": "user", "content": probes[PROMPT]}], probes)
        found = []
        for name, probe in probes.items():
            before, behind = text.partition(probe)[0], text.rpartition(probe)[2]
            if probe in text and not (nonce in before and nonce in behind):
                found.append(name)
        return found

    def runs(self, words: int) -> set[tuple[str, ...]]:
        """Return every run of so many words in what the file says itself, in lower case."""
        return {run for said in self._said for run in runs_of(said, words)}

    def _explanation(self, error: Exception) -> UserError:
        if isinstance(error, MemoryError):
            return UserError(f"template {self._path} takes more memory than there is")
        if isinstance(error, TookTooLong):
            return UserError(f"template {self._path} takes more than {FILL_SECONDS:g} s for one prompt")
        return UserError(f"template {self._path}: {error}")


def last_text(messages: Sequence[Mapping[str, str]]) -> str:
    """Return the text of the last message, which is the user's."""
    return messages[-1]["content"]
