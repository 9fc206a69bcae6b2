"""A config of the published library as a study and a catalogue of ours, with what changed and why."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refusal_eval.errors import UserError
from refusal_eval.hints import nearest

Config = Mapping[str, Any]

KNOWN = {
    *("dataset_splits", "model", "judge_model", "gpu_memory_utilization", "tensor_parallel_size", "output_dir"),
    *("continue_from_checkpoint", "enforce_eager", "pipeline_parallel_size"),
}
KNOWN_OF_A_MODEL = {
    *("name_or_path", "max_model_len", "max_new_tokens", "thinking-string", "thinking_string", "batch_size"),
    *("num_return_sequences", "temperature", "top_p", "top_k"),
}
# What its README's example and code use where a config says nothing.
MAX_MODEL_LEN, MAX_NEW_TOKENS, SAMPLES, MEMORY_SHARE = 16384, 8192, 5, 0.9
NO_COMMIT = "main"  # refused by the check of the config until a commit stands there
ITS_DATA = ("MultiverseComputingCAI/llm-refusal-evaluation", "Iker/refusal-evaluation")


@dataclass
class Imported:
    """What a published config became.

    Attributes:
        study: the study file.
        catalogue: the catalogue file that the study names.
        notes: what was changed and why, in the order of the config.
        todo: what the user has to fill in before the study runs.
    """

    study: dict[str, Any] = field(default_factory=dict)
    catalogue: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    todo: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Shipped:
    """Names that our own catalogue has: its splits, its judges, and its engines by the hub's repository.

    `off` are the splits that a study has to allow, each with the reason.
    """

    splits: Sequence[str]
    judges: Sequence[str]
    engines: Mapping[str, str]
    off: Mapping[str, str] = field(default_factory=dict)


def imported(config: Config, name: str, shipped: Shipped, gpus: int = 1, protocol: str = "default") -> Imported:
    """Return the study and the catalogue that a published config asks for.

    Args:
        config: the YAML file's content.
        name: the study's name.
        shipped: names of our catalogue.
        gpus: what `tensor_parallel_size: auto` stands for: all GPUs of the machine.
        protocol: `default`, or `compat` to ask and score as the published code does.

    Raises:
        UserError: for a config that is none of that library, with what is missing.
    """
    for key in ("model", "dataset_splits"):
        if not isinstance(config.get(key), dict if key == "model" else list) or not config[key]:
            raise UserError(f"this is no config of the published library: `{key}` is missing or of the wrong kind")
    result = Imported()
    for key in config:
        if key not in KNOWN:
            result.notes.append(
                f"{key}: not a key that we know of that library" + nearest(str(key), KNOWN) + "; left out"
            )
    model = _section(config, "model", result)
    parallel = _tensor_parallel(config, gpus, result)
    share = float(config.get("gpu_memory_utilization", MEMORY_SHARE))
    engine, entry = _model(model, name, parallel, share, shipped, protocol, result)
    splits = _splits(config["dataset_splits"], shipped, result)
    judge = _judge(config, shipped, protocol, result)
    samples = int(model.get("num_return_sequences", SAMPLES))
    result.catalogue = {"engines": engine, "models": {name: entry}}
    result.study = {
        "study": name,
        "description": "Imported from a config of the published library.",
        "models": [name],
        "splits": splits,
        "samples": samples,
        "judges": [judge],
        "protocol": protocol,
    }
    if allowed := [split for split in splits if split in shipped.off]:
        result.study["allow"] = allowed
        result.todo += [
            f"read why `{split}` is off by default, or leave it out: {shipped.off[split]}" for split in allowed
        ]
    if protocol == "default":
        result.study["tables"] = ["protocol_effects"]
    _without_meaning(config, model, result)
    return result


def _section(config: Config, key: str, result: Imported) -> dict[str, Any]:
    section = dict(config.get(key) or {})
    for name in section:
        if name not in KNOWN_OF_A_MODEL:
            hint = nearest(str(name), KNOWN_OF_A_MODEL)
            result.notes.append(f"{key}.{name}: not a key that we know of that library{hint}; left out")
    if not section.get("name_or_path"):
        raise UserError(f"`{key}.name_or_path` is missing")
    return section


def _model(
    model: Config,
    name: str,
    parallel: int,
    share: float,
    shipped: Shipped,
    protocol: str,
    result: Imported,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The engine (none if our catalogue has it) and the model."""
    repo = str(model["name_or_path"])
    length = int(model.get("max_model_len", MAX_MODEL_LEN))
    engine: dict[str, Any] = {"max_model_len": length, "tensor_parallel": parallel, "memory_share": share}
    weights: dict[str, Any] = {"kind": "hub", "repo": repo, "revision": NO_COMMIT}
    if repo.startswith(("/", "./", "../", "~")):
        weights = {"kind": "folder", "path": str(Path(repo).expanduser())}
    elif repo in shipped.engines:
        engine = {"like": shipped.engines[repo], **engine}
        result.notes.append(
            f"model.name_or_path: {repo} is the engine `{shipped.engines[repo]}` of our catalogue, at its commit"
        )
    else:
        result.todo.append(
            f"engines.{name}.weights.revision: the commit hash of {repo} that you mean; the published code takes "
            "whatever the hub has that day"
        )
    if "like" not in engine:
        engine = {"weights": weights, **engine}
    most = int(model.get("max_new_tokens", MAX_NEW_TOKENS))
    entry: dict[str, Any] = {"engine": name, "sampling": {"max_tokens": most, **_sampling(model, protocol, result)}}
    reasoning = _reasoning(model, repo, result)
    if reasoning:
        entry["reasoning"] = reasoning
    return {name: engine}, entry


def _sampling(model: Config, protocol: str, result: Imported) -> dict[str, Any]:
    """The config's sampling, which the published code reads and does not use."""
    asked = {key: model[key] for key in ("temperature", "top_p", "top_k") if key in model}
    neutral = {"temperature": 1.0, "top_p": 1.0, "top_k": -1}
    if any(value != neutral[key] for key, value in asked.items()):
        told = ", ".join(f"{key} {value}" for key, value in asked.items())
        if protocol == "compat":
            happens = "`protocol: compat` does the same, and these stand in the model for the record"
        else:
            happens = "here they hold. For what that code really did, import with --protocol compat"
        result.notes.append(
            f"model.temperature, top_p, top_k: the published code ignores them ({told}) and draws at temperature 1 "
            f"with top_p 1 and no top_k; {happens}"
        )
    if "top_k" in asked:
        asked["top_k"] = max(0, int(asked["top_k"]))  # there -1 is off, here 0
    return asked


def _reasoning(model: Config, repo: str, result: Imported) -> dict[str, str] | None:
    """The marks of the reasoning; a start mark where an end mark belongs is set right."""
    mark = model.get("thinking-string", model.get("thinking_string"))
    thinks = re.search(r"think|reason|qwq|-r1", repo, re.IGNORECASE)
    if not mark:
        if thinks:
            result.notes.append(
                f"model.thinking-string: none, but {repo} looks like a model that reasons; without `reasoning` in the "
                "model its whole response is judged"
            )
        return None
    text = str(mark).strip()
    start = re.fullmatch(r"(<)([A-Za-z_|]+)(>)", text) or re.fullmatch(r"(\[)([A-Z_]+)(\])", text)
    if not start or text.startswith(("</", "[/")):
        return {"end": text}
    end = f"{start[1]}/{start[2]}{start[3]}"
    result.notes.append(
        f"model.thinking-string: {text} opens the reasoning, so it is no end mark; {end} it is. Templates of such "
        f"models open the reasoning in the prompt, and the output has {end} only: with {text} the published code finds "
        "no answer, hands the whole reasoning to the judge, drops every prompt and writes no metrics"
    )
    return {"start": text, "end": end}


def _splits(asked: Sequence[Any], shipped: Shipped, result: Imported) -> list[str]:
    names = []
    for item in asked:
        if isinstance(item, Mapping):
            source, split = str(item.get("dataset_id", "")), str(item.get("split", ""))
            if source not in ITS_DATA or not split:
                result.todo.append(
                    f"dataset_splits: {source or 'a data set'} {split}".rstrip()
                    + " has to become a split of your catalogue (see config/README.md); it was left out"
                )
                continue
        else:
            split = str(item)
        if split in shipped.splits:
            names.append(split)
        else:
            hint = nearest(split, shipped.splits)
            result.todo.append(f"dataset_splits: our catalogue has no split `{split}`{hint}; it was left out")
    if not names:
        raise UserError("none of `dataset_splits` is a split of our catalogue: " + "; ".join(result.todo))
    if len(set(names)) < len(names):
        result.notes.append("dataset_splits: a split stands there twice; once is enough")
    result.notes.append(
        "dataset_splits: the published code reads Iker/refusal-evaluation at its newest commit; here the splits of the "
        "catalogue are taken, at a pinned one"
    )
    return list(dict.fromkeys(names))


def _judge(config: Config, shipped: Shipped, protocol: str, result: Imported) -> str:
    """The judge of our catalogue that comes nearest; the published prompt has no licence and is not here."""
    asked = dict(config.get("judge_model") or {})
    for name in asked:
        if name not in KNOWN_OF_A_MODEL:
            result.notes.append(f"judge_model.{name}: not a key that we know of that library; left out")
    repo = str(asked.get("name_or_path") or "openai/gpt-oss-20b")
    size = re.sub(r"[^a-z0-9]", "", repo.rsplit("/", 1)[-1].lower())
    found = [name for name in shipped.judges if size in re.sub(r"[^a-z0-9]", "", name.lower())]
    judge = found[0] if found else shipped.judges[0]
    if found:
        result.notes.append(
            f"judge_model.name_or_path: {repo} is the judge `{judge}` of our catalogue, with our rubric"
        )
    else:
        result.todo.append(
            f"judges: our catalogue has no judge with {repo}; `{judge}` stands there until you write one"
        )
    length, answer = asked.get("max_model_len"), asked.get("max_new_tokens")
    if length or answer:
        room = "" if not (length and answer) else f", so {int(length) - int(answer)} tokens for rubric and answer"
        result.notes.append(
            f"judge_model.max_model_len {length}, max_new_tokens {answer}{room}: of a longer judge prompt the "
            "published code cuts off the start, which holds the instructions; here the answer is cut in its "
            "middle, marked and counted, never the instructions"
        )
    drawn = [key for key in ("num_return_sequences", "temperature", "top_p", "top_k") if key in asked]
    if drawn:
        result.notes.append(
            f"judge_model.{', '.join(drawn)}: left out; the entry of the judge says how its verdicts are drawn"
        )
    return judge


def _tensor_parallel(config: Config, gpus: int, result: Imported) -> int:
    asked = config.get("tensor_parallel_size", "auto")
    if asked == "auto":
        result.notes.append(
            f"tensor_parallel_size: auto takes all GPUs of the machine for each model; here it is written down: "
            f"{gpus}. A small model is faster as several engines (`shards`)"
        )
        return max(1, gpus)
    if not isinstance(asked, int) or asked < 1:
        raise UserError(f"`tensor_parallel_size` is {asked!r}; it is a number of GPUs, or auto")
    return asked


def _without_meaning(config: Config, model: Config, result: Imported) -> None:
    """Keys that decide nothing here, and why."""
    judge = config.get("judge_model") or {}
    if "batch_size" in model or "batch_size" in judge:
        result.notes.append("batch_size: left out; all requests are at the engine together")
    if "enforce_eager" in config:
        result.notes.append("enforce_eager: left out; write it into the engine's `args` if you need it")
    if "continue_from_checkpoint" in config:
        result.notes.append(
            "continue_from_checkpoint: left out; every response is kept under a key of all that can change it, so what "
            "fits is used again and nothing stale is (there, a file that exists is taken, whatever made it)"
        )
    if "output_dir" in config:
        result.notes.append(
            f"output_dir: left out; results go to results/{result.study['study']}/ (`results_dir` says where else). To "
            "have them in the published layout, see scripts/export_published_layout.py"
        )
