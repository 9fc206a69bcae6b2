"""Where the files lie that the browser is made of, by the names of what they are about."""

from itertools import product
from pathlib import Path

from refusal_eval.study.study import Study

NOUNS = {"prompts": ("split",), "answers": ("model", "split"), "verdicts": ("judge", "model", "split"), "results": ()}


def page_paths(study: Study) -> dict[str, dict[tuple[str, ...], Path]]:
    """Return the paths of each noun by split, model and split, and so on."""
    names = {"split": list(study.splits), "model": list(study.models), "judge": list(study.judges)}
    return {
        noun: {
            own: Path(study.paths.of(noun, **dict(zip(wildcards, own, strict=True))))
            for own in product(*(names[wildcard] for wildcard in wildcards))
        }
        for noun, wildcards in NOUNS.items()
    }


def named_paths(study: Study) -> dict[str, list[tuple[list[str], str]]]:
    """Return the same as values of a rule's params."""
    return {noun: [(list(names), str(path)) for names, path in of.items()] for noun, of in page_paths(study).items()}


def files_read(study: Study) -> list[str]:
    """Return the files that the page is made of; a judge may judge some models alone."""
    unread = set(product(study.judges, study.models)) - set(study.read_pairs)
    found = [(noun, names, path) for noun, of in named_paths(study).items() for names, path in of]
    return [path for noun, names, path in found if noun != "verdicts" or (names[0], names[1]) not in unread]
