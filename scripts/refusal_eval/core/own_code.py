"""A user's own Python files, imported from their folder together with the modules next to them."""

import ast
import contextlib
import hashlib
import importlib.machinery
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from refusal_eval.core.errors import UserError

LIBRARY = __name__.partition(".")[0]
FOLDERS: list[str] = []  # of the files imported so far; last in `sys.path`


def import_own(file: str | os.PathLike[str]) -> ModuleType:
    """Import a Python file afresh; it finds the modules next to it, after the installed ones.

    It stays in `sys.modules`: dataclasses and pydantic look for their annotations there, and the processes of a pool
    for its functions.

    Raises:
        UserError: for a file that cannot be imported, with its line, and for a module next to it with the name of
            another one.
    """
    path = Path(file).resolve()
    name = f"refusal_eval_own_{hashlib.sha256(os.fsencode(path)).hexdigest()[:16]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UserError(f"{file} is not a Python file: its name must end in .py")
    for other in sorted({Path(beside).relative_to(path.parent).parts[0] for beside in modules_beside(path)}):
        _forget_of_other_folder(other.removesuffix(".py"), path.parent)
        if taken := find_namesake(other.removesuffix(".py"), path.parent):
            raise UserError(f"{file}: {other} lies in its folder and has the name of {taken}: rename it")
    _find_last(str(path.parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with contextlib.chdir(os.curdir):  # and back: the paths of a job are relative
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        place = f"{file}, line {_line(error, str(path))}"
        ends = " (put what only a program does under `if __name__ == '__main__':`)" * isinstance(error, SystemExit)
        raise UserError(f"{place}: cannot be imported: {type(error).__name__}: {error}{ends}") from error
    return module


def modules_beside(file: str | os.PathLike[str], library: str = LIBRARY) -> list[str]:
    """Return the files that a Python file imports out of its own folder, directly or through each other, sorted.

    All files of a package count. Invalid Python imports nothing here; the import itself reports it.

    Args:
        library: the package to ignore; this library may lie in the same folder.
    """
    main = Path(file)
    folder = main.resolve().parent if main.is_symlink() else main.parent
    found, todo = set[Path](), [main]
    while todo:
        with contextlib.suppress(SyntaxError, ValueError):
            places = [place for name, place in _beside(todo.pop(), folder).items() if name != library]
            modules = {module for place in places for module in (place.rglob("*.py") if place.is_dir() else [place])}
            todo += modules - found
            found |= modules
    return sorted(str(path) for path in found - {main})


def _beside(file: Path, folder: Path) -> dict[str, Path]:
    """Return by name the modules and packages of a folder that a file imports."""
    found = dict[str, Path]()
    for name in _imported_names(ast.parse(file.read_bytes())):
        package, module = folder / name, folder / f"{name}.py"
        if any(package.rglob("*.py")):
            found[name] = package
        elif module.is_file():
            found[name] = module
    return found


def _imported_names(tree: ast.Module) -> Iterator[str]:
    """Yield the first part of the names of all modules that a file imports, also inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]


def _forget_of_other_folder(name: str, folder: Path) -> None:
    """Forget a module that another file of the user's took out of its own folder under the same name."""
    place = _place_of(sys.modules[name]) if name in sys.modules else None
    if place is not None and place.parent != folder and str(place.parent) in FOLDERS:
        for known in [known for known in sys.modules if known == name or known.startswith(f"{name}.")]:
            del sys.modules[known]


def find_namesake(name: str, folder: Path) -> str | None:
    """Return another module of this name outside the folder: Python's own, or an installed one."""
    if name in sys.stdlib_module_names:
        return "a module of Python's own"
    path = [entry for entry in sys.path if entry not in FOLDERS]
    spec = importlib.machinery.PathFinder.find_spec(name, path)
    places = [spec.origin] if spec and spec.origin else list((spec and spec.submodule_search_locations) or ())
    elsewhere = [place for place in places if not Path(place).resolve().is_relative_to(folder)]
    return elsewhere[0] if elsewhere else None


def _place_of(module: ModuleType) -> Path | None:
    """Return the file of a module, or the folder of a package."""
    file = getattr(module, "__file__", None)
    if file is None:
        return next((Path(place) for place in getattr(module, "__path__", ())), None)
    return Path(file).parent if Path(file).name == "__init__.py" else Path(file)


def _find_last(folder: str) -> None:
    """Let modules of this folder be found, after all installed ones and before those of other files."""
    if folder in sys.path and folder not in FOLDERS:  # the user's own doing, as by PYTHONPATH
        return
    FOLDERS[:] = [folder, *(other for other in FOLDERS if other != folder)]
    sys.path[:] = [*(entry for entry in sys.path if entry not in FOLDERS), *FOLDERS]
    importlib.invalidate_caches()


def _line(error: BaseException, path: str) -> int:
    """Return the line of a file where an error was raised."""
    if isinstance(error, SyntaxError) and error.filename == path:
        return error.lineno or 0
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return lines[-1] or 0 if lines else 0
