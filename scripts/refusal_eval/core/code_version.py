"""A hash of a script and of the library code behind it, so that Snakemake sees a corrected formula.

Every start of Snakemake asks for the versions of all scripts. What was found out about a file's content is therefore
kept, in the package's `__pycache__`.
"""

import ast
import contextlib
import functools
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from refusal_eval.core.files import write_json
from refusal_eval.core.own_code import modules_beside

LIBRARY = Path(__file__).resolve().parents[1]  # the folder of the package, whose name its modules are imported by
# Under a name that changes with this file, which decides what is found out.
OWN = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]
KEPT = LIBRARY / "__pycache__" / f"code_version.{sys.implementation.cache_tag}-{OWN}.json"
FOUND: dict[Path, tuple[str, list[str]]] = {}  # of each file looked at so far a hash of its code, and what it imports
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@functools.cache
def code_version(script: str | Path, *files: Path, library: Path = LIBRARY) -> str:
    """Return 16 hex digits that change when the code of `script`, or what it imports from this library, changes.

    Comments, docstrings, layout and the descriptions of fields do not count: they cannot change a result. Of a script,
    and of files beside it, Snakemake sees only that they are newer, which those of an unpacked archive need not be.

    Args:
        files: modules that it finds by name (see `Registry.module`), of the library or plug-ins, and templates or
            other words that it reads.
    """
    digest, known = hashlib.sha256(), len(_stored_facts())
    for file in [Path(script), *imported_modules(script, *files, library=library)]:
        name = file.relative_to(library).as_posix() if file.is_relative_to(library) else file.name
        digest.update(f"{name}\0{_cached_facts(file)[0]}\0".encode())
    if len(_stored_facts()) > known:
        with contextlib.suppress(OSError):  # a folder that cannot be written costs time only
            write_json(KEPT, _stored_facts())
    return digest.hexdigest()[:16]


def imported_modules(script: str | Path, *files: Path, library: Path = LIBRARY) -> list[Path]:
    """Return the library's modules that a script imports, and further files with theirs, in alphabetical order.

    Imports are followed through the whole package, at any place in a module. The `__init__.py` of its packages run with
    it and therefore count, except for the list of features.
    """
    todo = {*files, *_own_imports(Path(script), library)}
    seen = set[Path]()
    while todo:
        module = todo.pop()
        if module not in seen:
            seen.add(module)
            todo |= _own_imports(module, library)
    return sorted(seen)


@functools.cache
def _own_imports(file: Path, library: Path) -> frozenset[Path]:
    """Return the files of the library's modules that a file imports itself (their packages' files included)."""
    files: set[Path] = set()
    for name in _cached_facts(file)[1]:
        package, *parts = name.split(".")
        if package != library.name:
            continue
        for length in range(len(parts) + 1):
            files.add(library.joinpath(*parts[:length], "__init__.py"))
        if parts:
            files.add(library.joinpath(*parts).with_suffix(".py"))
    if file.suffix == ".py" and not file.is_relative_to(library):  # a plug-in may have modules of its own
        files |= {Path(module) for module in modules_beside(file, library.name)}
    files.discard(library / "features" / "__init__.py")  # their list, which is behind no number
    return frozenset(file for file in files if file.is_file())


def changed_code() -> list[Path]:
    """Return the files whose code has changed since a version was computed from it."""
    return sorted(file for file, (code, _) in FOUND.items() if _code_now(file) != code)


def _code_now(file: Path) -> str | None:
    with contextlib.suppress(OSError, SyntaxError, ValueError):  # it is gone, or was left in the middle of an edit
        return _facts(file)[0]
    return None


def _cached_facts(file: Path) -> tuple[str, list[str]]:
    if file not in FOUND:
        FOUND[file] = _facts(file)
    return FOUND[file]


def _facts(file: Path) -> tuple[str, list[str]]:
    """Return a hash of the code of a file, without docstrings and descriptions of fields, and what it imports.

    Other files than Python's are hashed whole.
    """
    source = file.read_bytes()
    key = hashlib.sha256(source).hexdigest()
    if file.suffix != ".py":
        return key, []
    kept = _stored_facts()
    if key not in kept:
        tree = ast.parse(source)
        imports = _imports(tree)
        _strip(tree)
        kept[key] = hashlib.sha256(ast.dump(tree).encode()).hexdigest(), imports
    code, imports = kept[key]
    return code, imports


def _strip(tree: ast.Module) -> None:
    """Take away what cannot change a result."""
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Field":
            node.keywords = [keyword for keyword in node.keywords if keyword.arg != "description"]


def _imports(tree: ast.Module) -> list[str]:
    """Return the names of what a file may import: modules, and whatever it takes from a module.

    What it imports for types alone cannot change a result.
    """
    names: set[str] = set()
    for node in _walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return sorted(names)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and its descendants, except for the body of `if TYPE_CHECKING:`."""
    yield node
    checked = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    for child in node.orelse if checked and isinstance(node, ast.If) else ast.iter_child_nodes(node):
        yield from _walk(child)


@functools.cache
def _stored_facts() -> dict[str, tuple[str, list[str]]]:
    """Return what is known of files, by the SHA-256 of their content."""
    try:
        return dict(json.loads(KEPT.read_bytes()))
    except (OSError, ValueError, TypeError):
        return {}
