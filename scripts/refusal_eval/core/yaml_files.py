"""YAML files, read within bounds: plain values only, and every fault is an error with its line.

A file may be somebody else's, and some are read that nobody named: those that lie near a study. YAML lets a few bytes
stand for as many values as one likes, nest without end, and name types that their text does not fit.
"""

import os
import re
import stat
from pathlib import Path
from typing import Any

import yaml
from yaml.composer import Composer, ComposerError
from yaml.constructor import ConstructorError, SafeConstructor
from yaml.cyaml import CParser  # type: ignore[attr-defined]
from yaml.resolver import Resolver

from refusal_eval.core.texts import MERGE_MARK

MOST_BYTES = 16 * 2**20
MOST_VALUES = 200_000  # a second or two of reading
MOST_BITS = 14_000  # of a whole number: Python writes no number of over 4,300 digits
MOST_DEPTH = 100
ODD = re.compile("[\xa0\u1680\u2000-\u200b\u202f\u205f\u2060\u3000\uff1a]")
MOST_REPEATED = 100_000  # values that aliases add to a file


def read_yaml(path: str | Path, of_user: bool = False) -> Any:
    """Return the value of a YAML file; None for an empty one. `of_user` for a file that a user wrote.

    Raises:
        OSError: if it cannot be read, is no regular file, or is too large.
        UnicodeDecodeError: if it is not UTF-8.
        yaml.YAMLError: if it is not valid YAML, beyond the bounds, or a user's and a key stands twice in a mapping.
    """
    node = yaml_node(path)
    if node is None:
        return None
    if of_user:
        _refuse_double_keys(node)
    return yaml_value(node)


def yaml_node(path: str | Path) -> yaml.Node | None:
    """Return the nodes of a YAML file, with their lines; None for an empty one. Raises what `read_yaml` raises."""
    # A pipe would block until somebody writes into it.
    with open(path, encoding="utf-8", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as handle:
        state = os.fstat(handle.fileno())
        if not stat.S_ISREG(state.st_mode):
            raise OSError(0, "it is no regular file")
        if state.st_size > MOST_BYTES:
            raise OSError(0, f"it is larger than {MOST_BYTES // 2**20} MB")
        text = handle.read()
    _refuse_merge_marks(text)
    try:
        return _Loader(text).get_single_node()
    except yaml.MarkedYAMLError as error:
        marks = [mark.line for mark in (error.context_mark, error.problem_mark) if mark is not None]
        error.problem = f"{error.problem}{odd_letter(text, min(marks, default=0), max(marks, default=0))}"
        raise


def odd_letter(text: str, first: int = 0, last: int | None = None) -> str:
    """Return, as the end of a sentence, where a text has a letter that only looks like YAML's; else nothing.

    Only lines from `first` to `last`, counted from 0, are looked at: what others hold is no reason.
    """
    end = None if last is None else last + 1
    for number, line in enumerate(text.split("\n")[first:end], first + 1):
        if (found := ODD.search(line)) and not line.lstrip().startswith("#"):
            looks = "colon" if found[0] == "\uff1a" else "space"
            letter = f"U+{ord(found[0]):04X}"
            return f"; line {number} has {letter}, which looks like a {looks} and is none: write a plain {looks}"
    return ""


def _refuse_merge_marks(text: str) -> None:
    for number, line in enumerate(text.split("\n")):
        if line[:1] in "<=>|" and MERGE_MARK.fullmatch(line):
            mark = yaml.Mark("", 0, number, 0, None, 0)
            raise ComposerError(problem=f"`{line.strip()[:40]}` is a mark of an unfinished merge", problem_mark=mark)


def _refuse_double_keys(root: yaml.Node) -> None:
    """Raise `ComposerError` for a duplicate key in a mapping; YAML would keep the last."""
    todo, seen = [root], set[int]()
    while todo:
        node = todo.pop()
        if id(node) in seen:  # an alias
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            todo += node.value
        elif isinstance(node, yaml.MappingNode):
            keys = set[tuple[str, str]]()
            for key, value in node.value:
                name = (key.tag, str(key.value))
                if isinstance(key, yaml.ScalarNode) and name in keys and key.value != "<<":
                    raise ComposerError(problem=f"the key `{key.value:.60}` stands twice", problem_mark=key.start_mark)
                keys.add(name)
                todo.append(value)


def refuse_unbounded(text: str) -> None:
    """Raise `yaml.YAMLError` for YAML that nests or repeats itself beyond the bounds, before a library reads it."""
    _Loader(text).get_single_node()


def yaml_value(node: yaml.Node) -> Any:
    """Return the value of a document's node.

    Raises:
        yaml.YAMLError: if a text does not fit the type that is written before it.
    """
    return _Loader("").construct_document(node)


class _Loader(Composer, CParser, SafeConstructor, Resolver):
    """Parses in C and puts nodes together in Python, where depth and aliases can be counted.

    PyYAML's own loader in C calls itself for each level, without a bound, and dies of it.
    """

    def __init__(self, text: str) -> None:
        CParser.__init__(self, text)
        Composer.__init__(self)
        SafeConstructor.__init__(self)
        Resolver.__init__(self)
        self._depth = self._written = self._values = 0
        self._sizes: dict[str, int] = {}  # number of values behind an anchor

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()
        if self.check_event(yaml.AliasEvent):
            if event.anchor in self.anchors and event.anchor not in self._sizes:
                raise ComposerError(None, None, f"the alias *{event.anchor} stands in what it names", event.start_mark)
            self._values += self._sizes.get(event.anchor, 0)
            if self._values - self._written > MOST_REPEATED:
                raise ComposerError(None, None, f"aliases repeat more than {MOST_REPEATED} values", event.start_mark)
            return super().compose_node(parent, index)
        before = self._values
        self._depth, self._written, self._values = self._depth + 1, self._written + 1, self._values + 1
        if self._written > MOST_VALUES:
            raise ComposerError(None, None, f"the file holds more than {MOST_VALUES} values", event.start_mark)
        if self._depth > MOST_DEPTH:
            raise ComposerError(None, None, f"values nest deeper than {MOST_DEPTH}", event.start_mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        if event.anchor is not None:
            self._sizes[event.anchor] = self._values - before
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            value = super().construct_object(node, deep)
            if type(value) is int and value.bit_length() > MOST_BITS:
                raise ValueError("Exceeds the limit of 4300 digits for a whole number")
            return value
        except yaml.YAMLError:
            raise
        except Exception as error:  # a day such as 2026-13-45, or `!!int x`; YAML would not give its line
            text = str(error) if type(error) is ValueError else f"this does not fit its type {node.tag}"
            raise ConstructorError(problem=text, problem_mark=node.start_mark) from error
