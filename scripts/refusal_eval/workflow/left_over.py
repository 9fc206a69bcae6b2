"""Tables, figures and the like that a study no longer makes: they stay beside its current ones, and look like them."""

from collections.abc import Iterable
from pathlib import Path

from refusal_eval.study.files import file_table, made_files
from refusal_eval.study.study import Study


def left_over(study: Study) -> list[str]:
    """Return the files that people look at in a study's results and that it does not make; names within them."""
    results, made = Path(study.paths.results), set(map(Path, made_files(study)))
    folders = sorted({file.folder for file in file_table().values() if file.shown})
    there = [path for folder in folders for path in (results / folder).rglob("[!.]*") if path.is_file()]
    return sorted(path.relative_to(results).as_posix() for path in there if path not in made)


def about_left_over(results: str, names: Iterable[str]) -> str:
    """Return what to say about such files."""
    return f"This study no longer makes these files in {results}; they may hold old numbers: {', '.join(names)}"
