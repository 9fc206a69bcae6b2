"""Checks that need more than one entry, the study beside its entries, or the disk."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from refusal_eval.config.catalogue import TYPES, Catalogue
from refusal_eval.config.comparison_entries import comparison_mistakes
from refusal_eval.config.engine_entry import Capabilities, Engine
from refusal_eval.config.explain import check
from refusal_eval.config.figure_entry import AnyFigure, FigureStudy, name_mistakes
from refusal_eval.config.judge_entry import JudgeEntry, JudgeStudy
from refusal_eval.config.kinds import ENGINES, JUDGES
from refusal_eval.config.problems import Problem, one_of
from refusal_eval.config.recorded_checks import recorded_mistakes
from refusal_eval.config.shapes import KeyPath, OnDisk, paths_on_disk
from refusal_eval.config.study_entry import Study
from refusal_eval.config.yaml_source import Source, Written, readable_path
from refusal_eval.core.hints import nearest, nearest_name

LARGEST_STUDY = 2**20  # bytes
# The lists of a study: key (also the section of the catalogue), and what one of it is called.
LISTS = {"models": "model", "splits": "split", "judges": "judge", "gold": "gold"}


class Checks:
    """All checks of one study; each notes its mistakes and does what it can where others found some."""

    def __init__(self, study: Written, catalogue: Catalogue, root: str, problems: list[Problem]) -> None:
        self.study, self.catalogue, self.root, self.problems = study, catalogue, root, problems
        self.used = {
            section: [n for _, n in self._names(section) if n in catalogue.written[section]] for section in LISTS
        }
        users = [catalogue.written[s][n] for s in ("models", "judges") for n in self.used[s]]
        # The engine of a model whose answers are recorded is asked for nothing: it needs no weights and no pin.
        engines = [entry.get("engine") for entry in users if not entry.get("recorded")]
        self.used["engines"] = sorted(name for name in catalogue.written["engines"] if name in engines)

    def run(self) -> None:
        """Run every check."""
        self._study_names()
        self._engine_names()
        self._engine_kinds()
        self._labels()
        self._sampling()
        self._dialogues()
        self._protocol()
        self._folders()
        self._figures()
        self._paths(self.study, Study)
        for section, names in self.used.items():
            for name in names:
                self._paths(self.catalogue.written[section][name], TYPES[section])
        for section in ("splits", "gold"):
            for name in self.used[section]:
                self._rows(self.catalogue.written[section][name])
        # A name that the catalogue lacks is told already; what follows from it is no mistake of its own.
        named = {key: [name for _, name in self._names(key)] for key in ("models", "splits", "judges")}
        named = {key: names for key, names in named.items() if set(names) <= set(self.catalogue.written[key])}
        for path, message in comparison_mistakes(self.study.get("comparisons"), named):
            self._note(self.study, ("comparisons", *path), message)
        gold = [one for _, one in self._names("gold")]
        self._judges(gold)
        written = {section: self.catalogue.written[section] for section in ("models", "judges", "splits")}
        entries = {section: {name: written[section][name].value for name in self.used[section]} for section in written}
        for section, name, path, message in recorded_mistakes(**entries, gold=gold):
            self._note(written[section][name], path, message)

    def _judges(self, gold: list[str]) -> None:
        """Ask each judge whose entry is valid what its study lacks for it."""
        judges: dict[str, JudgeEntry | None] = {n: self.catalogue.valid["judges"][n] for n in self.used["judges"]}
        study = JudgeStudy(judges, gold, str(self.study.get("protocol")))
        for name, judge in judges.items():
            for path, message in judge.mistakes(name, study) if judge else ():
                self._note(self.catalogue.written["judges"][name], path, message)

    def _names(self, key: str) -> Iterator[tuple[int, str]]:
        names = self.study.get(key)
        for index, name in enumerate(names if isinstance(names, list) else ()):
            if isinstance(name, str):
                yield index, name

    def _note(self, written: Written, path: KeyPath, message: str) -> None:
        self.problems.append(written.problem(path, message))

    def _study_names(self) -> None:
        for key, word in LISTS.items():
            known, seen = self.catalogue.written[key], set()
            for index, name in self._names(key):
                if name not in known and self.catalogue.complete:
                    self._note(
                        self.study, (key, index), f"there is no {word} `{name}` in the catalogue" + nearest(name, known)
                    )
                if name in seen:
                    self._note(self.study, (key, index), f"`{name}` is named twice")
                seen.add(name)
        primary, judges = self.study.get("primary_judge"), [name for _, name in self._names("judges")]
        if isinstance(primary, str) and judges and primary not in judges:
            self._note(self.study, ("primary_judge",), f"`{primary}` is not one of `judges`" + nearest(primary, judges))

    def _engine_names(self) -> None:
        known = self.catalogue.written["engines"]
        for section in ("models", "judges"):
            for entry in self.catalogue.written[section].values():
                name = entry.get("engine")
                if isinstance(name, str) and name not in known and self.catalogue.complete:
                    self._note(
                        entry, ("engine",), f"there is no engine `{name}` in the catalogue" + nearest(name, known)
                    )

    def _engine_kinds(self) -> None:
        """Ask the kind of each engine whether it can do what its models and judges need."""
        for section in ("models", "judges"):
            for name in self.used[section]:
                entry = self.catalogue.written[section][name]
                engine = self.catalogue.written["engines"].get(str(entry.get("engine")))
                kind = None if engine is None else ENGINES.kind_of(engine.value)
                if engine is None or kind not in ENGINES.names():
                    continue
                needed = _model_needs(entry) if section == "models" else _judge_needs(entry)
                if can_do(kind).lacks(needed):
                    able = [f"`{other}`" for other in ENGINES.names() if not can_do(other).lacks(needed)]
                    message = f"engine `{entry.get('engine')}` is of kind `{kind}`; this entry needs one "
                    self._note(
                        entry, ("engine",), message + (f"of kind {one_of(able)}" if able else "that can do more")
                    )
                elif section == "models" and not can_do(kind).takes_token_ids:
                    self._rendered_elsewhere(entry, kind)
                if self.study.get("determinism") == "strict" and not can_do(kind).strict:
                    message = f"`strict` cannot be had from engine `{entry.get('engine')}` of kind `{kind}`"
                    self._note(self.study, ("determinism",), message)

    def _rendered_elsewhere(self, model: Written, kind: str) -> None:
        """Refuse what only the engine's own rendering decides, and what needs token ids."""
        for key, neutral in (("template", "default"), ("template_options", {}), ("date", None)):
            if model.get(key) not in (None, neutral):
                message = f"an engine of kind `{kind}` takes messages and renders them itself; leave it out"
                self._note(model, (key,), message)
        if model.get("reasoning", "format") == "harmony":
            message = f"`harmony` is told by token ids, which an engine of kind `{kind}` does not give"
            self._note(model, ("reasoning", "format"), message)
        if self.study.get("protocol") == "compat":
            message = f"`compat` sends token ids, which an engine of kind `{kind}` does not take"
            self._note(self.study, ("protocol",), message)

    def _labels(self) -> None:
        """Two rows of one name could not be told apart in a table."""
        for section in LISTS:
            first: dict[str, str] = {}
            for name in dict.fromkeys(self.used[section]):
                entry = self.catalogue.written[section][name]
                label = entry.get("label") or name
                if isinstance(label, str) and first.setdefault(label, name) != name:
                    self._note(
                        entry, ("label",), f"`{first[label]}` has the label {label!r} too; tables need different ones"
                    )

    def _sampling(self) -> None:
        samples = self.study.get("samples")
        for name in self.used["models"]:
            model = self.catalogue.written["models"][name]
            if model.get("recorded"):
                continue  # nothing is drawn: its sampling stands for the record
            for key, value in (("temperature", 0), ("top_k", 1)):
                written = model.get("sampling", key)
                if written == value and not isinstance(written, bool) and _is_number(samples) and samples > 1:
                    message = (
                        f"{key} {value} gives the same answer every time, so `samples` must be 1 (it is {samples})"
                    )
                    self._note(model, ("sampling", key), message)
            engine = self.catalogue.written["engines"].get(str(model.get("engine")))
            longest, length = engine.get("max_model_len") if engine else None, model.get("sampling", "max_tokens")
            if _is_number(longest) and _is_number(length) and length >= longest:
                message = f"{length} leaves no room for a prompt: `max_model_len` of its engine is {longest}"
                self._note(model, ("sampling", "max_tokens"), message)

    def _dialogues(self) -> None:
        """Say before the first turn is paid for that a model cannot be asked a second one."""
        splits = [name for name in self.used["splits"] if self.catalogue.written["splits"][name].get("dialogue")]
        for name in self.used["models"] if splits else ():
            model = self.catalogue.written["models"][name]
            if model.get("template") == "none":
                message = f"`none` takes one user message, but split `{splits[0]}` asks several turns; leave it out"
                self._note(model, ("template",), message)

    def _protocol(self) -> None:
        """The published code asks one question, and has these two numbers written into it."""
        if self.study.get("protocol") != "compat":
            return
        for name in self.used["splits"]:
            if self.catalogue.written["splits"][name].get("dialogue"):
                message = f"`compat` asks one question per prompt, but split `{name}` asks several turns"
                self._note(self.study, ("protocol",), message)
        for key, fixed in (("tau", 1.0), ("band", 0.1)):
            written = self.study.get("scoring", key)
            if _is_number(written) and written != fixed:
                message = f"is {fixed:g} under `protocol: compat`; leave it out"
                self._note(self.study, ("scoring", key), message)

    def _figures(self) -> None:
        """Names must be the study's; the kind of a valid entry knows what else it needs of the study."""
        names = {key: [name for _, name in self._names(key)] for key in LISTS}
        valid: Any = {
            key: {name: self.catalogue.valid[key].get(name) for name in names[key]} for key in ("splits", "judges")
        }
        # What follows from another mistake would be none of its own.
        known = names["models"] and names["judges"] and all(all(of.values()) for of in valid.values())
        whole = FigureStudy(
            models=names["models"],
            splits=valid["splits"],
            judges=valid["judges"],
            gold=names["gold"],
            samples=self.study.get("samples"),
            protocol=self.study.get("protocol"),
            primary_judge=str(self.study.get("primary_judge") or next(iter(names["judges"]), "")),
        )
        figures, seen = self.study.get("figures"), set()
        for index, entry in enumerate(figures if isinstance(figures, list) else ()):
            if not isinstance(entry, dict):
                continue
            here = ("figures", index)
            name = entry.get("name")
            if isinstance(name, str) and name in seen:
                message = f"two figures have the name `{name}`; their files would be the same"
                self._note(self.study, (*here, "name"), message)
            seen.add(str(name))
            found = list(name_mistakes(entry, names))
            figure, wrong = check(AnyFigure, entry)
            if known and not wrong:
                found += figure.mistakes(whole)
            for path, message in found:
                self._note(self.study, (*here, *path), message)

    def _folders(self) -> None:
        """A study's results must not lie in a folder that studies share, nor where something else lies."""
        defaults = {key: Study.model_fields[key].default for key in ("results_dir", "store_dir", "cache_dir")}
        folders = {key: value if isinstance(value := self.study.get(key), str) else defaults[key] for key in defaults}
        name = self.study.get("study")
        if not isinstance(name, str):
            return
        results = os.path.abspath(os.path.join(folders["results_dir"], name))
        for key, folder in [*folders.items(), ("study", results)]:
            if in_the_way := _no_folder(os.path.abspath(folder)):
                message = f"{readable_path(in_the_way)} is there and is no folder; move it away, or choose another name"
                self._note(self.study, (key,), message)
        for key in ("store_dir", "cache_dir"):
            if (results + os.sep).startswith(os.path.abspath(folders[key]) + os.sep):
                message = f"the results would lie in {readable_path(results)}, inside `{key}`; choose another name"
                self._note(self.study, ("study",), message)

    def _paths(self, written: Written, shape: Any) -> None:
        for path, mark in paths_on_disk(shape, written.value).items():
            place = written.get(*path)  # type: ignore[arg-type]
            for message in _wrong_with(place, mark):
                self._note(written, path, message)

    def _rows(self, entry: Written) -> None:
        kind, file = entry.get("source", "kind"), entry.get("source", "file")
        if kind == "bundled" and isinstance(file, str):
            folder = os.path.join(self.root, "config", "prompts")
            known = os.listdir(folder) if os.path.isdir(folder) else []
            if file not in known:
                message = f"there is no `{file}` in {readable_path(folder)}" + nearest(file, known)
                self._note(entry, ("source", "file"), message)
        file = entry.get("source", "path") if kind == "file" else file
        file = entry.get("source", "url") if kind == "url" else file
        if entry.get("source", "skip_lines") and isinstance(file, str) and not file.endswith(".csv"):
            self._note(entry, ("source", "skip_lines"), "is for CSV files only; leave it out")
        if entry.get("source", "encoding") and isinstance(file, str) and file.endswith(".parquet"):
            self._note(entry, ("source", "encoding"), "is for CSV and JSONL files only; leave it out")


def can_do(kind: str) -> Capabilities:
    """Return what engines of a kind can do."""
    engine: type[Engine] = ENGINES.get(kind)  # type: ignore[assignment]
    return engine.capabilities


def _model_needs(model: Written) -> tuple[str, ...]:
    return ("writes_text", "adapters") if model.get("lora") else ("writes_text",)


def _judge_needs(judge: Written) -> tuple[str, ...]:
    kind = judge.get("kind")
    return JUDGES.get(kind).engine_needs if kind in JUDGES.names() else ()  # type: ignore[attr-defined]


def _no_folder(path: str) -> str | None:
    """Return what stands where a folder is to be, or one above it."""
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return None if os.path.isdir(path) else path


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _wrong_with(path: str, mark: OnDisk) -> Iterator[str]:
    """Yield what is wrong with what is at a path."""
    if mark.what in ("output", "answers folder"):  # of the latter recorded_checks.py tells more
        return
    if mark.what == "model folder":
        yield from _wrong_with_model_folder(path)
    elif mark.what == "adapter folder":
        yield from _wrong_with_adapter_folder(path)
    elif os.path.isdir(path):
        yield f"{path} is a folder, not a {mark.what}"
    elif not os.path.isfile(path):
        folder = os.path.dirname(path) or "."
        missing = f"there is no folder {folder}" if not os.path.isdir(folder) else f"there is no {mark.what} {path}"
        beside = os.listdir(folder) if os.path.isdir(folder) else []
        name = os.path.basename(path)
        close = nearest_name(name, mark.words, 0.7) or nearest_name(name, beside, 0.7)
        yield missing + (f"; did you mean `{close}`?" if close else "")


def _wrong_with_model_folder(path: str) -> Iterator[str]:
    if not os.path.isdir(path):
        yield f"there is no folder {path}"
        return
    names = os.listdir(path)
    if "config.json" not in names:
        yield f"{path} has no config.json: it is not a model folder"
    if not any(name.endswith(".safetensors") for name in names):
        yield f"{path} has no *.safetensors file: the weights are missing"
    if not {"tokenizer.json", "tokenizer.model", "vocab.json"} & set(names):
        yield f"{path} has no tokenizer (tokenizer.json or tokenizer.model)"


def _wrong_with_adapter_folder(path: str) -> Iterator[str]:
    if not os.path.isdir(path):
        yield f"there is no folder {path}"
        return
    names = os.listdir(path)
    if "adapter_config.json" not in names:
        yield f"{path} has no adapter_config.json: it is not a LoRA adapter in PEFT's format"
    if "adapter_model.safetensors" not in names:
        pickles = sorted(name for name in names if name in ("adapter_model.bin", "adapter_model.pt"))
        hint = f"; {pickles[0]} is not loaded, because pickles run code" if pickles else ""
        yield f"{path} has no adapter_model.safetensors{hint}"


def check_same_name(name: Any, source: Source, root: str, problems: list[Problem]) -> None:
    """Note another study file of the same name: each would overwrite the other's results without a word."""
    here = os.path.realpath(source.file)
    folders = [os.path.dirname(here), os.path.realpath(os.path.join(root, "config"))]
    others = {os.path.realpath(os.path.join(folder, file)) for folder in folders for file in _yaml_files(folder)} - {
        here
    }
    for other in sorted(others):
        if _may_name_a_study(other) and (data := Source(other).data).get("study") == name and data != source.data:
            message = f"{readable_path(other)} has the same study name `{name}` and other content; rename one of them"
            problems.append(source.problem(("study",), message))


def _yaml_files(folder: str) -> list[str]:
    names = os.listdir(folder) if os.path.isdir(folder) else []
    found = [name for name in names if name.endswith((".yaml", ".yml")) and not name.startswith(".")]
    return [name for name in found if not name.endswith(".lock.yaml")]


def _may_name_a_study(file: str) -> bool:
    """Tell quickly whether a file is worth parsing: other large YAML files may lie beside a study, and no files."""
    try:
        return os.path.isfile(file) and os.path.getsize(file) <= LARGEST_STUDY and b"study" in Path(file).read_bytes()
    except OSError:
        return False
