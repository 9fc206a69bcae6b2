"""Test that a class name of the library stands for one thing."""

import ast
from collections import Counter
from collections.abc import Iterator

from refusal_eval.core.code_version import LIBRARY

# Names that two modules may give to a class or to an alias of a type. May shrink, must not grow.
TWICE: dict[str, str] = {}


def class_names(tree: ast.Module) -> Iterator[str]:
    """Yield the classes of a module and its aliases of types; type variables belong to one signature each."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name, value = statement.targets[0].id, statement.value
            variable = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "TypeVar"
            if name[0].isupper() and not name.isupper() and not variable:
                yield name


def test_a_class_name_stands_once() -> None:
    names = Counter(name for path in LIBRARY.rglob("*.py") for name in set(class_names(ast.parse(path.read_bytes()))))
    assert {name for name, times in names.items() if times > 1} == set(TWICE)
