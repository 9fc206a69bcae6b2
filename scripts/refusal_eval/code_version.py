"""A hash of the library code behind a script, so that Snakemake sees a corrected formula."""

from __future__ import annotations

import ast
import functools
import hashlib
from pathlib import Path

PACKAGE = "refusal_eval"


@functools.cache
def code_version(script: str) -> str:
    """Return 16 hex digits that change when the code that `script` imports from this library changes.

    Comments, docstrings and layout do not count: they cannot change a result. Imports are followed through the
    whole package, wherever in a module they stand. The script itself is left to Snakemake, which tracks it.

    Args:
        script: path of the script.
    """
    library = Path(__file__).resolve().parent
    digest = hashlib.sha256()
    todo, seen = _imported(ast.parse(Path(script).read_text(encoding="utf-8")), library), set[Path]()
    while todo:
        module = todo.pop()
        if module not in seen:
            seen.add(module)
            todo |= _imported(_parsed(module), library)
    for module in sorted(seen):
        digest.update(f"{module.relative_to(library).as_posix()}\0{ast.dump(_parsed(module))}\0".encode())
    return digest.hexdigest()[:16]


@functools.cache
def _parsed(module: Path) -> ast.Module:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return tree


def _imported(tree: ast.Module, library: Path) -> set[Path]:
    """Return the files of the library's modules that a parsed file imports (their packages' files included)."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    files: set[Path] = set()
    for name in names:
        parts = name.split(".")
        if parts[0] != PACKAGE:
            continue
        for length in range(1, len(parts)):
            folder = library.joinpath(*parts[1:length])
            files.add(folder / "__init__.py")
        place = library.joinpath(*parts[1:])
        files |= {place.with_suffix(".py"), place / "__init__.py"} if len(parts) > 1 else {library / "__init__.py"}
    return {file for file in files if file.is_file()}
