"""What a shell gives to Python that keeps the workflow from running: strangers among the libraries, an old locale."""

import os
import sys
import sysconfig

from refusal_eval.core.errors import UserError

# Folders of many projects, which some libraries install as well.
COMMON = {"benchmarks", "docs", "examples", "scripts", "test", "tests", "tools"}


def refuse_locale() -> None:
    """Raise `UserError` where the locale lets Python write no name of a file in UTF-8, which ours are in."""
    encoding = sys.getfilesystemencoding()
    if encoding.lower().replace("-", "") != "utf8":
        named = next(
            (f"{name}={os.environ[name]}" for name in ("LC_ALL", "LC_CTYPE", "LANG") if os.environ.get(name)), ""
        )
        raise UserError(
            f"this shell's locale ({named or 'none is named'}) is not UTF-8 but {encoding}, so that names of files and "
            "texts would be changed: run `export PYTHONUTF8=1`, or choose a locale such as C.UTF-8"
        )


def about_strangers(error: Exception | None = None) -> str | None:
    """Return a note if PYTHONPATH hides libraries of this environment, a possible cause of the error; else None.

    It may be harmless: a user's module can share the name of a library that is never imported.
    """
    hidden = list(
        dict.fromkeys(os.path.join(folder, name) for folder in _foreign_folders() for name in _hidden_modules(folder))
    )
    if not hidden:
        return None
    more = f" and {len(hidden) - 3} more" if len(hidden) > 3 else ""
    why = f" ({type(error).__name__}: {error})" if error is not None else ""
    return (
        f"PYTHONPATH puts other modules before the libraries of this environment ({', '.join(hidden[:3])}{more}), "
        f"which may fail or give other numbers: run `unset PYTHONPATH` and start again{why}"
    )


def _foreign_folders() -> list[str]:
    own = {os.path.realpath(path) for path in (*_libraries(), os.path.join(os.path.dirname(__file__), "..", ".."))}
    folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return [folder for folder in folders if folder and os.path.realpath(folder) not in own]


def _libraries() -> list[str]:
    return [sysconfig.get_path(kind) for kind in ("purelib", "platlib")]


def _hidden_modules(folder: str) -> list[str]:
    known = sys.stdlib_module_names | {module for library in _libraries() for module, _ in _modules(library)}
    return [name for module, name in _modules(folder) if module in known - COMMON]


def _modules(folder: str) -> list[tuple[str, str]]:
    """Return the modules that can be imported from a folder, with the names of their files or folders."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    files = [(name.partition(".")[0], name) for name in names if name.endswith((".py", ".so"))]
    return files + [(name, name) for name in names if os.path.isfile(os.path.join(folder, name, "__init__.py"))]
