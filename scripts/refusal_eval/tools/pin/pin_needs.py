"""What a study takes from the hub and from addresses: pure functions of its validated config."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from refusal_eval.config.change import changes
from refusal_eval.core.errors import UserError
from refusal_eval.core.hints import nearest
from refusal_eval.data.hub import RemoteFile
from refusal_eval.study.study import Study
from refusal_eval.weights.weight_fetching import weights_names

KINDS = {"model": "model", "dataset": "data set"}
WEIGHTS, ALL = "weights", "all files"


@dataclass(frozen=True)
class Need:
    """What a study takes from one repository or address, under one pin."""

    kind: str  # `model`, `dataset` or `url`
    name: str  # the repository, or the address
    pin: str | None  # the hash that the entries give; None where they leave it open
    wants: tuple[str, ...]  # `weights`, `all files`, what a change of a model wants, or names of files
    licences: tuple[str, ...]  # what the entries say
    used_by: tuple[str, ...]  # the entries, such as `engines.qwen3-4b`

    @property
    def pinned_by(self) -> Literal["entry", "lock"]:
        return "lock" if self.pin is None else "entry"

    def __str__(self) -> str:
        return self.name if self.kind == "url" else f"{KINDS[self.kind]} {self.name}"


def needs_of(config: Mapping[str, Any]) -> list[Need]:
    """Return what a study, validated without its lock file, takes from the hub and from addresses.

    Sorted; one for each pin of a repository.
    """
    found: dict[tuple[str, str, str | None], list[tuple[str, str | None, str]]] = {}
    for section, name, entry, source in Study(config).sources():
        if source.pin is None:
            continue
        of_models = section in ("engines", "models")
        kind = "url" if source.taken_from == "url" else "model" if of_models else "dataset"
        wants = source.wants or getattr(source, "file", None) or ALL
        licence = entry.licence if section != "models" else None  # that of what changes a model is not the model's
        use = (wants, licence, f"{section}.{name}")
        found.setdefault((kind, source.known_as, getattr(source, source.pin)), []).append(use)
    needs = []
    for pin, uses in sorted(found.items(), key=lambda item: (item[0][0], item[0][1].lower(), item[0][2] or "")):
        wanted, licences, users = (
            tuple(sorted({value for value in values if value})) for values in zip(*uses, strict=True)
        )
        needs.append(Need(*pin, wants=wanted, licences=licences, used_by=users))
    return needs


def wanted_files(need: Need, files: Mapping[str, RemoteFile]) -> dict[str, RemoteFile]:
    """Return those files of a repository that the study will fetch.

    Raises:
        UserError: if one is not there.
    """
    names, changing = set[str](), {change.wants: change for change in changes() if change.has_source}
    for wants in need.wants:
        if wants == ALL:
            names |= set(files)
        elif wants == WEIGHTS:
            names |= set(weights_names(files, str(need)))
        elif wants in changing:
            names |= set(changing[wants].wanted_names(files))
        else:
            names.add(wants)
    for name in sorted(names - set(files)):
        raise UserError(f"{need}: has no file `{name}`{nearest(name, files)}")
    if not names:
        raise UserError(f"{need}: holds no files")
    return {name: files[name] for name in sorted(names)}
