"""A judge's instructions, which quote prompt and answer so that neither can pass for anything else."""

import hashlib
import os
import resource
import string
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from refusal_eval.core.cpu_limit import TookTooLong, cpu_limit
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import canonical_json, read_users_text

# Limit of a rubric check; a usual one takes milliseconds.
CHECK_SECONDS, CHECK_MEGABYTES = 2, 500
# What it may take for one answer, which may be long, and how many times as long as what it is made of its text may be.
RENDER_SECONDS, MOST_TIMES = 10.0, 20

ChatMessages = Sequence[Mapping[str, str]]


class Rubric:
    """A judge's instructions: a Jinja file with the variables `prompt`, `answer`, `prompt_nonce` and `nonce`.

    Use the nonces in the names of delimiters: a text cannot contain its own hash, and so cannot close its delimiter.
    `prompt_nonce` depends on the prompt alone, so that the engine reads a prompt once for all its answers; `nonce` on
    prompt and answer. In a conversation the lines with the roles carry `prompt_nonce`, so that no message can start
    another role's turn.

    Attributes:
        policy: what the file sets as `policy` (`{% set policy %} ... {% endset %}`): the part for a system message, as
            models want it that were trained to follow a policy. The same for every answer; None for most rubrics.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = path
        # A rubric may be somebody else's, and a dry run renders it.
        environment = ImmutableSandboxedEnvironment(undefined=jinja2.StrictUndefined, autoescape=False)
        if Path(path).exists() and not Path(path).is_file():  # reading a pipe may never end
            raise UserError(f"rubric {path} is no regular file")
        text = read_users_text(path)
        self._length = len(text)
        try:
            self._template = environment.from_string(text)
        except Exception as error:  # a template may fail in any way
            raise self._explanation(error) from error
        probe = self.text([{"role": "user", "content": "PROBE-PROMPT"}], "PROBE-ANSWER")
        if "PROBE-PROMPT" not in probe or "PROBE-ANSWER" not in probe:
            raise UserError(f"rubric {path} must contain {{{{ prompt }}}} and {{{{ answer }}}}")
        self.policy = self._policy()

    def _policy(self) -> str | None:
        """Return the part for a system message, which may hold nothing of what is judged: it would be in no tags."""
        names = ("prompt", "answer", "prompt_nonce", "nonce")
        try:
            with cpu_limit(RENDER_SECONDS):
                made = [self._template.make_module(dict.fromkeys(names, text)) for text in ("ONE", "OTHER")]
            policies = [getattr(module, "policy", None) for module in made]
        except Exception as error:
            raise self._explanation(error) from error
        if policies[0] != policies[1]:
            raise UserError(
                f"rubric {self._path}: `policy` must be the same for every answer, without {{{{ prompt }}}}"
            )
        return None if policies[0] is None else str(policies[0]).strip()

    def text(self, messages: ChatMessages, answer: str) -> str:
        """Return the judge's user message for one answer.

        Raises:
            UserError: if the rubric fails, or takes far more time or text than any judge's instructions do.
        """
        of_prompt, of_both = nonce_of(messages), nonce_of(messages, answer)
        prompt = conversation_text(messages, of_prompt)
        most, parts, length = MOST_TIMES * (self._length + len(prompt) + len(answer)), list[str](), 0
        try:
            with cpu_limit(RENDER_SECONDS):
                for part in self._template.generate(
                    prompt=prompt, answer=answer, prompt_nonce=of_prompt, nonce=of_both
                ):
                    parts.append(part)
                    length += len(part)
                    if length > most:
                        raise ValueError(f"its text is more than {MOST_TIMES} times as long as what it is made of")
        except Exception as error:
            raise self._explanation(error) from error
        return "".join(parts)

    def _explanation(self, error: Exception) -> UserError:
        if isinstance(error, MemoryError):
            return UserError(f"rubric {self._path} takes more memory than there is")
        if isinstance(error, TookTooLong):
            return UserError(f"rubric {self._path} takes more than {RENDER_SECONDS:g} s for one answer")
        return UserError(f"rubric {self._path}: {error}")


def rubric_mistake(path: str | Path, open_allowed: bool = False) -> str | None:
    """Return what is wrong with a rubric, and what would be right; None where nothing is.

    A rubric whose answer can close its own block is wrong: `nonce` must stand before the answer and behind it.

    Args:
        open_allowed: whether it may be such a one all the same, as prompts of other people are.
    """
    return within_bounds(f"rubric {path}", lambda: _mistake(path, open_allowed))


def within_bounds(template: str, check: Callable[[], str | None]) -> str | None:
    """Return what a check of a template returns, or that the template takes too long.

    The check runs in a process of its own, because nothing else ends a template that computes one large number or text.
    """
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(receiving)
            in_use = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_CPU, (CHECK_SECONDS, CHECK_SECONDS + 1))
            memory = in_use + CHECK_MEGABYTES * 10**6
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
            with open(sending, "w", encoding="utf-8", errors="replace") as answer:
                answer.write((check() or "")[:2000])
            os._exit(0)
        finally:
            os._exit(1)
    os.close(sending)
    with open(receiving, encoding="utf-8") as answer:
        message = answer.read()
    if os.waitpid(child, 0)[1] == 0:
        return message or None
    return f"{template} takes more than {CHECK_SECONDS} s or {CHECK_MEGABYTES} MB for one short answer"


def _mistake(path: str | Path, open_allowed: bool) -> str | None:
    try:
        rubric = Rubric(path)
    except UserError as error:
        return str(error)
    messages, answer = [{"role": "user", "content": "PROBE-PROMPT"}], "PROBE-ANSWER"
    text, nonce = rubric.text(messages, answer), nonce_of(messages, answer)
    before, behind = text.partition(answer)[0], text.rpartition(answer)[2]
    if open_allowed or (nonce in before and nonce in behind):
        return None
    return (
        f"rubric {path} lets an answer close its own block and speak as the rubric; write it between tags with "
        "{{ nonce }}: <response_{{ nonce }}>, {{ answer }}, </response_{{ nonce }}>, a line each"
    )


def nonce_of(messages: ChatMessages, answer: str | None = None) -> str:
    """Return ten lower-case letters (47 bits) that depend on a prompt, or on a prompt and an answer.

    Letters, because a tokenizer takes some of them together: six tokens where twelve hex digits (48 bits) are eleven.
    """
    content = str(messages[0]["content"]) if len(messages) == 1 else canonical_json(list(messages))
    text = content if answer is None else f"{content}\0{answer}"
    digits = int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest(), "big")
    letters = []
    for _ in range(10):
        digits, letter = divmod(digits, len(string.ascii_lowercase))
        letters.append(string.ascii_lowercase[letter])
    return "".join(letters)


def prompt_and_answer(messages: ChatMessages, answer: str) -> list[dict[str, str]]:
    """Return prompt and answer as two messages, for judges whose template is their format."""
    prompt = conversation_text(messages, nonce_of(messages))
    return [{"role": "user", "content": prompt}, {"role": "assistant", "content": answer}]


def conversation_text(messages: ChatMessages, nonce: str) -> str:
    """Return what the model was asked: the text of a single message, else all messages under lines with their roles.

    A last line says what the answer replies to: it is to be labelled, and not the conversation as a whole.
    """
    if len(messages) == 1:
        return str(messages[0]["content"])
    texts = [f"[{message['role']}_{nonce}]\n{message['content']}" for message in messages]
    return "\n\n".join([*texts, f"[end_{nonce}: the response replies to the last message above]"])
