"""A copy of the repository without one feature: linted, planned and tested as the whole is.

A feature goes with its folder, its name in `FEATURES`, its rules, the scripts that only these run, its files of the
catalogue, and its tests and benchmarks: files that import it at their head, themselves or by another of these files,
and tests marked `feature`.

    python tests/without_feature.py FEATURE [pytest's arguments]
"""

import ast
import importlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = Path("scripts", "refusal_eval")
RULES = Path("workflow", "rules")
USERS = ("tests", "benchmarks")  # rooms whose files may be of one feature
TESTED = ("tests/unit", "tests/workflow", "tests/fuzz")
FAST = ("-m", "not full and not soak", "-p", "no:cacheprovider", "-q")
PARALLEL = ("-n", "logical", "--dist", "loadfile", "--no-loadscope-reorder")
OF_COPIES = Path("tests", "workflow", "test_removed_features.py")  # makes copies of its own
MYPY = ".mypy_cache"
BIN = Path(".venv", "workflow", "bin")


def copy_without(feature: str, folder: Path) -> Path:
    """Return a copy of the repository without a feature, whose environments are ours."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file() and not (ROOT / name).is_symlink():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    for name in (".venv", ".cache"):
        if (ROOT / name).exists() and not (folder / name).exists():
            (folder / name).symlink_to((ROOT / name).resolve())
    if (ROOT / MYPY).is_dir():  # from nothing it takes a minute
        shutil.copytree(ROOT / MYPY, folder / MYPY)
    shutil.rmtree(folder / LIBRARY / "features" / feature)
    _edit(folder / LIBRARY / "features" / "__init__.py", rf'"{feature}", |, "{feature}"(?=[,)])')
    package = importlib.import_module(f"refusal_eval.features.{feature}")
    for name in getattr(package, "CATALOGUE", ()):
        (folder / "config" / "catalogue" / name).unlink()
    gone = _remove_rules(folder, getattr(package, "RULES", ()))
    _remove_tests(folder, feature, gone)
    (folder / OF_COPIES).unlink()
    return folder


def _edit(file: Path, pattern: str) -> None:
    """Take out of a file what matches a pattern, once."""
    text, count = re.subn(pattern, "", file.read_text(), count=1)
    assert count == 1, f"{file} has no {pattern}"
    file.write_text(text)


def _remove_rules(folder: Path, rules: Iterable[str]) -> set[str]:
    """Remove files of rules, and the scripts that no other rule runs; return the names of these."""
    run = set[str]()
    for name in rules:
        file = folder / RULES / f"{name}.smk"
        run |= _scripts(file)
        file.unlink()
    gone = run.difference(*map(_scripts, (folder / RULES).glob("*.smk")))
    for name in gone:
        (folder / "scripts" / f"{name}.py").unlink()
    return gone


def _scripts(rules: Path) -> set[str]:
    return set(re.findall(r'"\.\./\.\./scripts/(\w+)\.py"', rules.read_text()))


def _remove_tests(folder: Path, feature: str, scripts: Iterable[str]) -> None:
    """Remove the files that cannot be imported without a feature and its scripts."""
    package = f"refusal_eval.features.{feature}"
    heads = {file: _imported(file) for room in USERS for file in (folder / room).rglob("*.py")}
    gone = set(scripts)
    while own := [
        file
        for file, names in heads.items()
        if any(name in gone or name == package or name.startswith(f"{package}.") for name in names)
    ]:
        for file in own:
            gone.add(file.stem)
            del heads[file]
            file.unlink()


def _imported(file: Path) -> set[str]:
    """Return the modules that a file imports at its head."""
    names = set[str]()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def run(folder: Path, *command: str | Path) -> None:
    """Run a command in a copy.

    Raises:
        CalledProcessError: if it fails.
    """
    print("$", *command, flush=True)
    environment = os.environ | {"PYTHONPATH": str(folder / "scripts")}
    subprocess.run(list(map(str, command)), cwd=folder, check=True, env=environment)


def generate(folder: Path) -> None:
    """Make the schema and the reference of the config again."""
    run(folder, BIN / "python", "docs/generator/generate_config_docs.py")


def lint(folder: Path) -> None:
    """Lint a copy as `make lint` does, but for what only its layout could change."""
    run(folder, BIN / "ruff", "check", ".")
    run(folder, BIN / "mypy")
    run(folder, BIN / "lint-imports")


def plan(folder: Path) -> None:
    """Plan the demo."""
    run(folder, BIN / "snakemake", "-n", "--quiet", "--cores", "1")


def collect(folder: Path) -> None:
    """Collect the tests that are left."""
    run(folder, BIN / "python", "-m", "pytest", "--collect-only", "-qq", *FAST, *TESTED)


def test(folder: Path, *arguments: str) -> None:
    """Run the tests that are left, or those that pytest's arguments choose."""
    run(folder, BIN / "python", "-m", "pytest", *FAST, *(arguments or (*PARALLEL, *TESTED)))


STEPS: tuple[Callable[[Path], None], ...] = (generate, lint, plan, collect)


def main(feature: str, *arguments: str) -> None:
    """Do all of it."""
    with tempfile.TemporaryDirectory(prefix=f"without-{feature}-") as folder:
        copy = copy_without(feature, Path(folder))
        for step in STEPS:
            step(copy)
        test(copy, *arguments)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        main(*sys.argv[1:])
    except subprocess.CalledProcessError as error:
        sys.exit(f"{error}")
