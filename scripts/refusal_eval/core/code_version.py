"""A hash of the library code behind a script, so that Snakemake sees a corrected formula."""

import ast
import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path

LIBRARY = Path(__file__).resolve().parents[1]  # the folder of the package, whose name its modules are imported by
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@functools.cache
def code_version(script: str | Path, *modules: Path, library: Path = LIBRARY) -> str:
    """Return 16 hex digits that change when the code that `script` imports from this library changes.

    Comments, docstrings, layout and the descriptions of fields do not count: they cannot change a result. The script
    itself is left to Snakemake, which tracks it.

    Args:
        script: path of the script.
        modules: files of modules that it finds by name (see `Registry.module`), of the library or plug-ins.
        library: folder of the package.
    """
    digest = hashlib.sha256()
    for module in imported_modules(script, *modules, library=library):
        name = module.relative_to(library).as_posix() if module.is_relative_to(library) else module.name
        digest.update(f"{name}\0{_code(module)}\0".encode())
    return digest.hexdigest()[:16]


def imported_modules(script: str | Path, *modules: Path, library: Path = LIBRARY) -> list[Path]:
    """Return the files of the library's modules that a script imports, and of further modules, in alphabetical order.

    Imports are followed through the whole package, wherever in a module they stand; the `__init__.py` of a module's
    packages are run with it and so belong to it.
    """
    todo = {*modules, *_imported(ast.parse(Path(script).read_text(encoding="utf-8")), library)}
    seen = set[Path]()
    while todo:
        module = todo.pop()
        if module not in seen:
            seen.add(module)
            todo |= _modules_behind(module, library)
    return sorted(seen)


# Kept, as many scripts import the same modules, and on a cluster every job reads the workflow anew.
@functools.cache
def _code(module: Path) -> str:
    """Return the code of a module as text, without docstrings and descriptions of fields."""
    tree = _parsed(module)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Field":
            node.keywords = [keyword for keyword in node.keywords if keyword.arg != "description"]
    return ast.dump(tree)


@functools.cache
def _modules_behind(module: Path, library: Path) -> frozenset[Path]:
    """Return the files of the library's modules that a module of it imports itself."""
    return frozenset(_imported(_parsed(module), library))


@functools.cache
def _parsed(module: Path) -> ast.Module:
    """Return the syntax tree of a module, without its docstrings."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    for node in [tree, *_statements(tree)]:
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return tree


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements in a node, however deep. Expressions, of which there are many more, hold none."""
    for block in ("body", "handlers", "orelse", "finalbody", "cases"):
        for child in getattr(node, block, ()):
            yield child
            yield from _statements(child)


def _imported(tree: ast.Module, library: Path) -> set[Path]:
    """Return the files of the library's modules that a parsed file imports (their packages' files included)."""
    names: set[str] = set()
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    files: set[Path] = set()
    for name in names:
        package, *parts = name.split(".")
        if package != library.name:
            continue
        for length in range(len(parts) + 1):
            files.add(library.joinpath(*parts[:length], "__init__.py"))
        if parts:
            files.add(library.joinpath(*parts).with_suffix(".py"))
    return {file for file in files if file.is_file()}
