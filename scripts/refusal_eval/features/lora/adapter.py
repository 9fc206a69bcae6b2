"""LoRA adapters in PEFT's format: what identifies one, what can be checked without an engine, and for which weights.

vLLM 0.32 does not ask whether an adapter fits its weights: layers that the model does not have are left out without a
word, and matrices that are too small are filled up with zeros (both tried). Answers would then be the base model's, or
nobody's.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from refusal_eval.config.kinds import ADAPTER_SOURCES
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import BadFile, read_json, refuse_changed, sha256_of_file, shown_path
from refusal_eval.data import hub
from refusal_eval.features.lora.adapter_sources import AdapterSource
from refusal_eval.features.lora.lora_change import adapter_name
from refusal_eval.weights.fingerprint import files_sha256
from refusal_eval.weights.tensors import Shape, read_tensors
from refusal_eval.weights.weight_fetching import Fetching, RemoteFiles, fetch_files
from refusal_eval.weights.weights_manifest import manifest_folder

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
FILES = (CONFIG, WEIGHTS)
PICKLES = ("adapter_model.bin", "adapter_model.pt")
TEMPLATES = ("chat_template.jinja", "chat_template.json")
TOKENIZER, ADDED_TOKENS = "tokenizer_config.json", "added_tokens.json"
BROUGHT_ALONG = (*TEMPLATES, TOKENIZER, ADDED_TOKENS)  # small files that are read for their warnings alone
# Of a float type of safetensors: the unsigned type of its size, and the bits that are all set in infinity and NaN.
NO_NUMBERS = {
    "F64": ("<u8", 0x7FF0000000000000),
    "F32": ("<u4", 0x7F800000),
    "F16": ("<u2", 0x7C00),
    "BF16": ("<u2", 0x7F80),
    "F8_E5M2": ("<u1", 0x7C),
    "F8_E4M3": ("<u1", 0x7F),
}
READ_AT_ONCE = 1 << 24  # bytes
MOST_RANK = 512  # of vLLM 0.32's `--max-lora-rank`

# Settings of PEFT that change an adapter's meaning and that vLLM 0.32 does not know: it would end minutes later with
# its own words.
UNSUPPORTED = {
    "use_dora": "DoRA",
    "lora_bias": "biases",
    "modules_to_save": "whole modules (`modules_to_save`)",
    "alora_invocation_tokens": "activated LoRA",
    "layer_replication": "replicated layers",
    "use_bdlora": "block-diagonal LoRA",
    "use_qalora": "QALoRA",
    "trainable_token_indices": "trained tokens",
}
# Ways to begin training that leave the base model's weights as they are; others change them when PEFT loads it.
FAITHFUL_STARTS = ("gaussian", "eva", "orthogonal", "mica", "lora_ga")

PARTS = {
    ".lora_A.weight": "a",
    ".lora_B.weight": "b",
    ".lora_embedding_A": "a",
    ".lora_embedding_B": "b",
}
# Models name their parts differently in training and in serving; from the layer's number on they agree.
FROM_THE_LAYER = re.compile(r"(?:^|\.)([A-Za-z_]+\.\d+\..+)$")
# What these modules read is as wide as the model, whose config.json says how wide that is: for packed weights.
READS_THE_STREAM = re.compile(r"\.(q|k|v|gate|up)_proj$")
WHOLE_NUMBERS = ("F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2")  # one stored number per weight; others are packed


@dataclass(frozen=True)
class Adapter:
    """A model's LoRA adapter, as its description file has it."""

    model: str  # the model's name
    identity: Mapping[str, Any]  # the part of it that is in the key of every request
    name: str  # the name under which an engine serves it, and that requests give
    folder: str  # where its files lie
    rank: int  # the largest rank of its matrices
    files: Mapping[str, str] = field(default_factory=dict)  # SHA-256 of its files by name

    def unchanged(self) -> Adapter:
        """Return it with its whole path, for the engine.

        Raises:
            UserError: for files that are not as they were when they were identified: they have another key.
        """
        refuse_changed([Path(self.folder, name) for name in self.files], self.files.values())
        return replace(self, folder=os.path.abspath(self.folder))


def fetch_adapter(source: Mapping[str, Any], fetching: Fetching) -> None:
    """Fetch an adapter into `cache`/hub and write its manifest.

    Raises:
        UserError: with what is wrong and what to do; also if a file that is needed is not there.
    """
    fetch_files(source, fetching, _names_to_fetch)


def _names_to_fetch(place: hub.Repository, files: RemoteFiles | None) -> list[str]:
    names = [path.name for path in hub.snapshot(place, FILES, None).iterdir()] if files is None else list(files)
    check_names(names, str(place), place.log)
    return wanted_names(names)


def describe_adapter(
    model: str, source: Mapping[str, Any], manifest: str | None, cache: str, log: logging.Logger
) -> Adapter:
    """Return a model's adapter, after checking its files. `manifest` is that of a fetched one, None for a folder.

    Raises:
        UserError: for an adapter that vLLM cannot serve.
    """
    kind: AdapterSource = ADAPTER_SOURCES.entry(source)
    folder = Path(shown_path(source["path"])) if manifest is None else manifest_folder(manifest)
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    check_names(names, str(folder), log)
    identity = kind.identity(files_sha256(folder, FILES, cache) if manifest is None else None)
    warn_of_own_tokenizer(folder, log)
    return Adapter(
        model=model,
        identity=identity,
        name=adapter_name(identity),
        folder=str(folder),
        rank=checked_rank(folder),
        files={name: sha256_of_file(folder / name) for name in FILES},
    )


def checked_rank(folder: str | Path) -> int:
    """Return the largest rank of an adapter, after checking all that needs no engine.

    Raises:
        UserError: for another format than PEFT's LoRA, and for what vLLM cannot serve.
    """
    path = Path(folder) / CONFIG
    config = read_json(path)
    if not isinstance(config, dict):
        raise UserError(f"{path} is no mapping; it is not an adapter in PEFT's format")
    if str(config.get("peft_type", "LORA")).upper() != "LORA":
        raise UserError(f"{path}: peft_type {config['peft_type']} is not LORA; only LoRA adapters can be served")
    for key in ("r", "lora_alpha", "target_modules"):
        if key not in config:
            raise UserError(f"{path} has no `{key}`; it is not a LoRA adapter in PEFT's format")
    _refuse_unsupported(config, path)
    pattern = config.get("rank_pattern") or {}
    if not isinstance(pattern, dict):
        raise UserError(f"{path}: `rank_pattern` must be a mapping of modules to ranks")
    ranks = [config["r"], *pattern.values()]
    if not all(isinstance(rank, int) and not isinstance(rank, bool) and 1 <= rank <= MOST_RANK for rank in ranks):
        raise UserError(f"{path}: ranks must be whole numbers from 1 to {MOST_RANK}, not {ranks}")
    _check_tensors(Path(folder) / WEIGHTS, max(ranks))
    _check_values(Path(folder) / WEIGHTS)
    return int(max(ranks))


def module_shapes(path: Path) -> dict[str, dict[str, Shape]]:
    """Return {module: {"a": shape, "b": shape}} of an adapter's tensors, under the base model's names.

    Raises:
        UserError: if it is not a safetensors file, and for a tensor that belongs to no LoRA module.
    """
    modules: dict[str, dict[str, Shape]] = {}
    for name, tensor in read_tensors(path).items():
        ending = next((ending for ending in PARTS if name.endswith(ending)), None)
        if ending is None:
            raise UserError(f"{path}: the tensor {name} is no part of a LoRA module; vLLM cannot serve it")
        module = name.removesuffix(ending).removeprefix("base_model.model.")
        modules.setdefault(module, {})[PARTS[ending]] = tensor.shape
    return modules


def _check_tensors(path: Path, rank: int) -> None:
    modules = module_shapes(path)
    if not modules:
        raise UserError(f"{path} holds no tensors")
    for module, shapes in modules.items():
        if set(shapes) != {"a", "b"} or any(len(shape) != 2 for shape in shapes.values()):
            raise UserError(f"{path}: {module} lacks one of its two matrices, A and B")
        if shapes["a"][0] != shapes["b"][1]:
            raise UserError(f"{path}: the matrices of {module} do not fit: {shapes['a']} and {shapes['b']}")
        # Experts may be stored together, one rank after the other.
        if shapes["a"][0] > rank and ".experts" not in module:
            raise UserError(f"{path}: {module} has rank {shapes['a'][0]}, but {CONFIG} says at most {rank}")


def _check_values(path: Path) -> None:
    """Read an adapter's weights.

    Raises:
        UserError: if one is infinite or no number, for every answer of every load with it would fail; and if one of
            each module's two matrices is 0, as before a training, for the adapter then changes nothing.
    """
    import numpy as np  # rules import this module, and a cluster's jobs parse them again and again

    not_zero = set[str]()
    for name, (kind, start, end) in _places(path).items():
        if kind not in NO_NUMBERS:
            not_zero.add(name)
            continue
        unsigned, bits = NO_NUMBERS[kind]
        size = np.dtype(unsigned).itemsize
        for begin in range(start, end, READ_AT_ONCE):
            count = min(READ_AT_ONCE, end - begin) // size
            values = np.fromfile(path, unsigned, count, offset=begin)
            if bad := int(np.count_nonzero((values & bits) == bits)):
                raise UserError(
                    f"{path}: {name} holds at least {bad} values that are infinite or no numbers (NaN); the adapter is "
                    "damaged, or its training diverged"
                )
            if (values << 1).any():  # without the sign: -0 is 0
                not_zero.add(name)
    whole = Counter(name.removesuffix(ending) for name in not_zero for ending in PARTS if name.endswith(ending))
    if 2 not in whole.values():
        raise UserError(
            f"{path}: one of the two matrices of each module is 0, as before a training, so that the adapter changes "
            "nothing; ask the model without it"
        )


def _places(path: Path) -> dict[str, tuple[str, int, int]]:
    """Return {tensor: type, first byte, byte behind the last} of a safetensors file that was found to be one."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    return {name: (row["dtype"], *(8 + length + at for at in row["data_offsets"])) for name, row in header.items()}


def _refuse_unsupported(config: Mapping[str, Any], path: Path) -> None:
    found = [words for key, words in UNSUPPORTED.items() if config.get(key)]
    if config.get("bias", "none") != "none":
        found.append("biases")
    start = config.get("init_lora_weights", True)
    if isinstance(start, str) and start.lower() not in FAITHFUL_STARTS:
        found.append(f"init_lora_weights {start!r}, which changes the base model")
    if found:
        what = ", ".join(dict.fromkeys(found))
        raise UserError(f"{path}: the adapter uses {what}; vLLM cannot serve it. Merge it into the weights instead")


def wanted_names(names: Iterable[str]) -> list[str]:
    """Return the files of an adapter's repository that are fetched: two, and those that something is said of."""
    return sorted({*FILES, *set(BROUGHT_ALONG).intersection(names)})


def check_names(names: Sequence[str], what: str, log: logging.Logger) -> None:
    """Check that a folder or a repository has the files of an adapter.

    Raises:
        UserError: if not.
    """
    if WEIGHTS not in names:
        pickles = [name for name in PICKLES if name in names]
        hint = f"; {pickles[0]} is not loaded, because pickles run code" if pickles else ""
        raise UserError(f"{what}: there is no {WEIGHTS}{hint}. Save the adapter as safetensors")
    if CONFIG not in names:
        raise UserError(f"{what}: there is no {CONFIG}; it is not an adapter in PEFT's format")
    if own := [name for name in names if name in TEMPLATES]:
        how = "name it as the model's `template` if need be"
        if own[0].endswith(".json"):
            how = "if need be, write the text of its `chat_template` into a .jinja file and name that as the `template`"
        log.warning("%s brings %s along, which is not used; %s", what, own[0], how)
    if ADDED_TOKENS in names:
        log.warning("%s has %s: tokens that its engine's tokenizer lacks are text to the model", what, ADDED_TOKENS)


def warn_of_own_tokenizer(folder: str | Path, log: logging.Logger) -> None:
    """Warn of a chat template or tokens in an adapter's tokenizer_config.json: the engine's tokenizer is used."""
    path = Path(folder) / TOKENIZER
    try:
        config = read_json(path) if path.is_file() else None
    except BadFile as error:
        log.warning("%s; it is not used, and whether it has a template of its own is not known", error)
        return
    if not isinstance(config, dict):
        return
    if config.get("chat_template"):
        log.warning(
            "%s has a chat_template of its own, which is not used: prompts are rendered with the engine's. If it was "
            "trained with another one, save it as a Jinja file and name that as the model's `template`",
            path,
        )
    if config.get("added_tokens_decoder") or config.get("additional_special_tokens"):
        log.info("%s lists special tokens; those that the engine's tokenizer lacks are text to the model", path)


def check_fits(adapter_folder: str | Path, weights_folder: str | Path, log: logging.Logger) -> None:
    """Check an adapter against the weights of its engine.

    Raises:
        UserError: if it was made for a model of another depth or width.
    """
    modules, base = module_shapes(Path(adapter_folder) / WEIGHTS), dict[str, list[Shape]]()
    whole = set[str]()
    for path in sorted(Path(weights_folder).glob("*.safetensors")):
        for name, tensor in read_tensors(path).items():
            module, _, last = name.rpartition(".")
            whole.add(module)
            known = base.setdefault(_from_the_layer(module), [])  # none where the weights are packed
            if last == "weight" and tensor.kind in WHOLE_NUMBERS and len(tensor.shape) == 2:
                known.append(tensor.shape)
    compared, patterns = 0, {_pattern(name) for name in base}
    wrong = f"the adapter {adapter_folder} does not fit {weights_folder}"
    for module, shapes in modules.items():
        name, needed = _from_the_layer(module), (shapes["b"][0], shapes["a"][1])
        if name in base:
            compared += 1
            # Some old models store their matrices the other way round.
            if base[name] and not {needed, needed[::-1]} & set(base[name]):
                has, needs = (" x ".join(map(str, shape)) for shape in (base[name][0], needed))
                raise UserError(
                    f"{wrong}: {name} has {has} weights, but the adapter is for {needs}; it was made for another model"
                )
        elif _pattern(name) in patterns:
            raise UserError(f"{wrong}, which has no {name}: it was made for another model")
    unseen = [module for module in modules if READS_THE_STREAM.search(module) and not base.get(_from_the_layer(module))]
    read = {modules[module]["a"][1] for module in unseen}
    widths = _widths(Path(weights_folder) / "config.json")
    if read and widths and not read & widths:
        needs, has = (" or ".join(map(str, sorted(sizes))) for sizes in (read, widths))
        raise UserError(f"{wrong}: it reads a model of width {needs}, and this one's is {has}; it was made for another")
    other = next((module for module in modules if module not in whole and _from_the_layer(module) in base), None)
    if other is not None:
        same = next(module for module in sorted(whole) if _from_the_layer(module) == _from_the_layer(other))
        message = (
            "%s names the module %s, and the weights %s; an engine that does not take one for the other loads the "
        )
        log.warning(
            message + "adapter and does not apply it (each load asks for that first)", adapter_folder, other, same
        )
    elif compared == len(modules):
        log.info("%s: all %d modules were compared with the weights", adapter_folder, compared)
    elif compared:
        message = "%s: only %d of %d modules could be compared with the weights; the others have different names, so "
        log.warning(message + "whether they fit is unknown", adapter_folder, compared, len(modules))
    else:
        log.warning("%s: its modules have other names than the weights; whether it fits is not known", adapter_folder)


def _widths(config: Path) -> set[int]:
    """Return the `hidden_size` of a model and of its parts; nothing if its config.json does not say it."""
    todo, found = [read_json(config)] if config.is_file() else [], set[int]()
    while todo:
        if isinstance(part := todo.pop(), dict):
            todo += part.values()
            found |= {part["hidden_size"]} if isinstance(part.get("hidden_size"), int) else set()
    return found


def warn_of_another_base(adapter_folder: str | Path, repo: str, log: logging.Logger) -> None:
    """Warn if an adapter says that it was made for another repository than this one.

    It may be a copy of the same weights, or a path where it was trained: only who trained it knows.
    """
    base = read_json(Path(adapter_folder) / CONFIG).get("base_model_name_or_path")
    if repo and base and str(base).lower() != repo.lower():
        log.warning("%s: was made for %s, as its %s says, but its engine uses %s", adapter_folder, base, CONFIG, repo)


def _from_the_layer(module: str) -> str:
    found = FROM_THE_LAYER.search(module)
    return found[1] if found else module


def _pattern(name: str) -> str:
    return re.sub(r"\d+", "#", name)
