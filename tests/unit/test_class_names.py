"""Test that a class name of the library stands for one thing."""

import ast
from collections import Counter
from collections.abc import Iterator

from refusal_eval.core.code_version import LIBRARY

# Names that stand more than once, and why. May shrink, must not grow.
TWICE = {
    "Capture": "the program that captures, which runs without the library, and the capture a study asks for",
    "Floats": "arrays of float64, in statistics and for activations",
    "Names": "names in the entry of an intervention, and those of a file's wildcards",
    "Source": "where an entry's files come from, and the text of a YAML file",
    "Study": "what a study file says, whose name the schema shows, and the study that is made of it",
}


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
    assert {name for name, times in names.items() if times > 1} <= set(TWICE)
