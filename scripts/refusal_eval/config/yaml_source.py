"""YAML files with the line of every key, and values laid over each other that still know their files."""

import copy
import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from refusal_eval.config.kinds import ENGINES
from refusal_eval.config.problems import Problem, dotted
from refusal_eval.config.shapes import KeyPath
from refusal_eval.core.files import shown_path
from refusal_eval.core.yaml_files import odd_letter, yaml_node, yaml_value

# What a user probably did where YAML only says what it found.
HINTS = {
    "found character that cannot start any token": "; indent with spaces, not tabs; quote a text that begins with @",
    "mapping values are not allowed in this context": "; put a text with `: ` in quotes; begin keys in one column",
}
OCTAL = re.compile(r"[-+]?0[0-7]+")


class Source:
    """A YAML file's content (`data`, a mapping) with the line of every key, and what is wrong with it as YAML.

    Args:
        actual: the values in force, where the command line may have replaced some of the file's.
    """

    def __init__(self, file: str, actual: Mapping[str, Any] | None = None) -> None:
        self.file = shown_path(file)
        self.data: Any = {}
        self.problems: list[Problem] = []
        self._lines: dict[KeyPath, int] = {}
        self._actual = actual
        wrong: tuple[int, str] | None = None  # with the file as a whole: the line, and what it is
        try:
            node = yaml_node(file)
            if node is not None:
                self._walk(node, ())  # first, for constructing resolves `<<` in the nodes
                self.data = yaml_value(node)
                if not isinstance(self.data, dict):
                    looks = odd_letter(node.value) if isinstance(node, yaml.ScalarNode) else ""
                    wrong = node.start_mark.line + 1, "must be a mapping of keys to values" + looks
        except OSError as error:
            wrong = 0, f"cannot be read: {error.strerror or error}"
        except UnicodeDecodeError as error:
            wrong = 0, f"is not UTF-8 text: {error.reason} at byte {error.start}"
        except yaml.YAMLError as error:
            mark, what = getattr(error, "problem_mark", None), getattr(error, "problem", None)
            wrong = mark.line + 1 if mark else 0, f"is not valid YAML: {what or error}{HINTS.get(str(what), '')}"
        self.readable = wrong is None
        if wrong is not None:
            self.data = {}
            self.problems.append(Problem(self.file, wrong[0], "", wrong[1]))

    def _walk(self, node: yaml.Node, path: KeyPath) -> None:
        """Note the line of every key; a key that stands twice is a mistake (YAML itself would keep the last one)."""
        children: list[tuple[str | int, yaml.Node, yaml.Node]] = []
        if isinstance(node, yaml.MappingNode):
            children = [(key.value, key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode)]
        elif isinstance(node, yaml.SequenceNode):
            children = [(index, value, value) for index, value in enumerate(node.value)]
        elif isinstance(node, yaml.ScalarNode) and _of_other_base(node):
            message = f"YAML reads {node.value} as {yaml_value(node)}: write that number, or put {node.value} in quotes"
            self.problems.append(Problem(self.file, node.start_mark.line + 1, dotted(path), message))
        seen: set[str | int] = set()
        for part, key, value in children:
            line = key.start_mark.line + 1
            if part in seen and part != "<<":
                first = self._lines[*path, part]
                message = f"this key stands twice (first in line {first}); YAML would keep the last one only"
                self.problems.append(Problem(self.file, line, dotted((*path, part)), message))
            else:
                self._lines[*path, part] = line
            seen.add(part)
            self._walk(value, (*path, part))

    def problem(self, path: KeyPath, message: str) -> Problem:
        """Return a `Problem` at `path`, with the line of its nearest known ancestor."""
        if self._actual is not None:
            in_force, in_file = look_up(self._actual, path), look_up(self.data, path)
            if in_force[1] == len(path) and in_force != in_file and repr(in_force) != repr(in_file):  # NaN is not NaN
                return Problem("--config", 0, dotted(path), message)
        line = next((self._lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self._lines), 0)
        return Problem(self.file, line, dotted(path), message)


def _of_other_base(number: yaml.ScalarNode) -> bool:
    """Tell whether YAML 1.1 reads a text as another number than people do: `2:00:00` to base 60, `010` to base 8."""
    if number.tag.rpartition(":")[2] not in ("int", "float"):
        return False
    text = number.value.replace("_", "")
    return ":" in text or (OCTAL.fullmatch(text) is not None and yaml_value(number) != int(text, 10))


@dataclass(frozen=True)
class Layer:
    """A value as one file writes it, and where it stands there."""

    value: Any
    source: Source
    path: KeyPath


class Written:
    """A value put together from layers, the last one on top; it knows in which file each part was written.

    `broken` says that a layer is missing, so that a key which seems missing may be in it.
    """

    def __init__(self, layers: Iterable[Layer], broken: bool = False) -> None:
        self.layers = list(layers)
        self.value = functools.reduce(merged, (layer.value for layer in self.layers))
        self.broken = broken

    def problem(self, path: KeyPath, message: str, missing: bool = False) -> Problem:
        """Return a `Problem` at `path` of this value, placed in the file that wrote it (or that should have)."""
        wanted = path[:-1] if missing else path
        depths = [look_up(layer.value, wanted)[1] for layer in self.layers]
        layer = max(zip(depths, range(len(depths)), self.layers, strict=True), key=lambda item: item[:2])[2]
        return layer.source.problem((*layer.path, *path), message)

    def get(self, *path: str) -> Any:
        """Return the value at `path`, or None where there is none."""
        value, inside = look_up(self.value, path)
        return value if inside == len(path) else None


def merged(base: Any, over: Any) -> Any:
    """Return `over` laid over `base`: mappings are merged key by key, anything else is replaced.

    Two mappings of different `kind` are not merged: the keys of one kind mean nothing to the other. Only engines need
    not say theirs.
    """
    both = isinstance(base, dict) and isinstance(over, dict)
    if not both or ("kind" in over and over["kind"] != base.get("kind", ENGINES.default)):
        return copy.deepcopy(over)
    result = copy.deepcopy(base)
    for key, value in over.items():
        result[key] = merged(base[key], value) if key in base else copy.deepcopy(value)
    return result


def look_up(value: Any, path: Iterable[str | int]) -> tuple[Any, int]:
    """Follow `path` into a value as far as it leads; return what is there and the number of steps taken."""
    steps = 0
    for part in path:
        inside_mapping = isinstance(value, Mapping) and part in value
        inside_list = isinstance(value, list) and isinstance(part, int) and part < len(value)
        if not (inside_mapping or inside_list):
            break
        value, steps = value[part], steps + 1
    return value, steps
