"""A config of the published library as a study and a catalogue of ours, with what changed and why."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from refusal_eval.compat.published_reasoning import reasoning_entry
from refusal_eval.compat.published_values import Config, number, section, weights_name, whole
from refusal_eval.core.errors import UserError
from refusal_eval.core.hints import nearest

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
ITS_JUDGE = "openai/gpt-oss-20b"  # what its configs name
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
class ShippedEngine:
    """An engine of our own catalogue.

    Attributes:
        name: its name.
        cards: GPUs that share each layer (`tensor_parallel`).
        reasoning: how its models' reasoning is told; None if they do not reason.
        off: why a study has to allow it; None if it need not.
    """

    name: str
    cards: int = 1
    reasoning: Mapping[str, str] | None = None
    off: str | None = None


@dataclass(frozen=True)
class Shipped:
    """What our own catalogue has: its splits, its judges, and its engines by the hub's repository.

    `off` are the splits and judges that a study has to allow, each with the reason; `taken` are the names of its
    engines and models, which entries of a study would replace.
    """

    splits: Sequence[str]
    judges: Sequence[str]
    engines: Mapping[str, ShippedEngine]
    off: Mapping[str, str] = field(default_factory=dict)
    taken: Collection[str] = ()


def imported(
    config: Config,
    name: str,
    shipped: Shipped,
    gpus: int | None = None,
    protocol: str = "default",
    folder: str | None = None,
) -> Imported:
    """Return the study and the catalogue that a published config asks for.

    Args:
        config: the YAML file's content.
        name: the study's name, which its engine and its model get too.
        shipped: names of our catalogue.
        gpus: what `tensor_parallel_size: auto` stands for with weights that our catalogue does not know: all GPUs of
            the machine; None where none is seen.
        protocol: `default`, or `compat` to ask and score as the published code does.
        folder: the model's weights where `name_or_path` is a folder, as the catalogue file is to name it; None where it
            is a repository of the hub.

    Raises:
        UserError: for a config that is none of that library, with what is missing, or a value that is of the wrong
            kind, with its key; for the name of an engine or a model of our catalogue.
    """
    if name in shipped.taken:
        raise UserError(
            f"our catalogue has an engine or a model `{name}`, which judges and other studies use too: entries of that "
            f"name would change it for them; choose another --name, e.g. {name}-imported"
        )
    for key in ("model", "dataset_splits"):
        if not isinstance(config.get(key), dict if key == "model" else list) or not config[key]:
            what = "a list of splits" if key == "dataset_splits" else "a mapping with `name_or_path`"
            raise UserError(
                f"this is no config of the published library: `{key}` is missing or of the wrong kind; it has to be "
                + what
            )
    result = Imported()
    for key in config:
        if key not in KNOWN:
            result.notes.append(
                f"{key}: not a key that we know of that library" + nearest(str(key), KNOWN) + "; left out"
            )
    model = _section(config, "model", result)
    samples = whole(model, "num_return_sequences", SAMPLES, "model.")
    known = shipped.engines.get(str(weights_name(model, "model."))) if folder is None else None
    engine = _engine(config, model, name, known, gpus, folder, result)
    entry = _model(model, name, known, protocol, result)
    if entry["sampling"].get("temperature") == 0 and samples > 1:
        result.todo.append(
            f"models.{name}.sampling.temperature: 0 gives {samples} equal answers, which the published code never drew "
            "(it draws at 1 whatever stands here); write 1, or `samples: 1` into the study"
        )
    splits = _splits(config["dataset_splits"], shipped, result)
    judge, notes, todo = _judge(section(config, "judge_model"), shipped.judges)
    result.notes += [*_unknown(section(config, "judge_model"), "judge_model"), *notes]
    result.todo += todo
    result.catalogue = {"engines": {name: engine}, "models": {name: entry}}
    result.study = {
        "study": name,
        "description": "Imported from a config of the published library.",
        "models": [name],
        "splits": splits,
        "samples": samples,
        "judges": [judge],
        "protocol": protocol,
    }
    off = {one: shipped.off[one] for one in (*splits, judge) if one in shipped.off}
    if known is not None and known.off is not None:
        off[name] = known.off
    if off:
        result.study["allow"] = list(off)
        result.todo += [f"read why `{one}` is off by default, or leave it out: {why}" for one, why in off.items()]
    if protocol == "default":
        result.study["tables"] = ["protocol_effects"]
    _without_meaning(config, model, result)
    return result


def _section(config: Config, key: str, result: Imported) -> dict[str, Any]:
    found = section(config, key)
    result.notes += _unknown(found, key)
    if weights_name(found, f"{key}.") is None:
        raise UserError(f"`{key}.name_or_path` is missing: the model's repository on the hub, or its folder")
    return found


def _unknown(found: Config, key: str) -> list[str]:
    return [
        f"{key}.{name}: not a key that we know of that library{nearest(name, KNOWN_OF_A_MODEL)}; left out"
        for name in found
        if name not in KNOWN_OF_A_MODEL
    ]


def _engine(
    config: Config,
    model: Config,
    name: str,
    known: ShippedEngine | None,
    gpus: int | None,
    folder: str | None,
    result: Imported,
) -> dict[str, Any]:
    """The engine: one of our catalogue where it has these weights, changed where the config says otherwise."""
    repo = str(weights_name(model, "model."))
    engine: dict[str, Any] = {"max_model_len": whole(model, "max_model_len", MAX_MODEL_LEN, "model.", least=16)}
    cards = _tensor_parallel(config, known, name, gpus, result)
    if cards is not None:
        engine["tensor_parallel"] = cards
    if (stages := whole(config, "pipeline_parallel_size", 1)) > 1:
        engine["pipeline_parallel"] = stages
    share = number(config, "gpu_memory_utilization", least=0.01, most=1.0)
    if share is not None or known is None:
        engine["memory_share"] = share or MEMORY_SHARE
    if known is not None:
        result.notes.append(
            f"model.name_or_path: {repo} is the engine `{known.name}` of our catalogue, at the commit that stands there"
        )
        return {"like": known.name, **engine}
    if folder is not None:
        return {"weights": {"kind": "folder", "path": folder}, **engine}
    result.todo.append(
        f"engines.{name}.weights.revision: the published code takes whatever {repo} holds that day; run "
        f"`refusal-eval pin {name}.yaml`, which writes today's commit into {name}.lock.yaml, or write the commit that "
        "you mean"
    )
    return {"weights": {"kind": "hub", "repo": repo, "revision": None}, **engine}


def _model(model: Config, name: str, known: ShippedEngine | None, protocol: str, result: Imported) -> dict[str, Any]:
    most = whole(model, "max_new_tokens", MAX_NEW_TOKENS, "model.")
    entry: dict[str, Any] = {"engine": name, "sampling": {"max_tokens": most, **_sampling(model, protocol, result)}}
    repo = str(weights_name(model, "model."))
    reasoning, notes, todo = reasoning_entry(model, repo, known.reasoning if known else None, protocol)
    result.notes += notes
    result.todo += [f"models.{name}.{one}" for one in todo]
    if reasoning:
        entry["reasoning"] = reasoning
    return entry


def _sampling(model: Config, protocol: str, result: Imported) -> dict[str, Any]:
    """The config's sampling, which the published code reads and does not use."""
    asked: dict[str, Any] = {
        "temperature": number(model, "temperature", "model."),
        "top_p": number(model, "top_p", "model.", most=1.0),
        "top_k": None if model.get("top_k") is None else whole(model, "top_k", 0, "model.", least=-1),
    }
    asked = {key: value for key, value in asked.items() if value is not None}
    neutral = {"temperature": 1.0, "top_p": 1.0, "top_k": -1}
    if any(value != neutral[key] for key, value in asked.items()):
        told = ", ".join(f"{key} {value:g}" for key, value in asked.items())
        if protocol == "compat":
            happens = "`protocol: compat` does the same, and these stand in the model for the record"
        else:
            happens = "here they hold. For what that code really did, import with --protocol compat"
        result.notes.append(
            f"model.temperature, top_p, top_k: the published code ignores them ({told}) and draws at temperature 1 "
            f"with top_p 1 and no top_k; {happens}"
        )
    if "top_k" in asked:
        asked["top_k"] = max(0, asked["top_k"])  # there -1 is off, here 0
    return asked


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


def _tensor_parallel(
    config: Config, known: ShippedEngine | None, name: str, gpus: int | None, result: Imported
) -> int | None:
    """How many GPUs share each layer; None to leave it to the engine of our catalogue, or to its default of 1."""
    asked = config.get("tensor_parallel_size")
    if asked is not None and asked != "auto":
        if not isinstance(asked, int) or isinstance(asked, bool) or asked < 1:
            raise UserError(f"`tensor_parallel_size` is {asked!r}; it has to be a number of GPUs, or auto")
        if known is not None and asked < known.cards:
            result.todo.append(
                f"engines.{name}.tensor_parallel: {asked} as the config says; `{known.name}` of our catalogue takes "
                f"{known.cards} cards of 80 GB, and fewer may not hold the weights"
            )
        return asked
    auto = "tensor_parallel_size: auto" + ("" if asked else " (it is missing)")
    auto += " takes all GPUs of the machine for each model"
    if known is not None:
        result.notes.append(f"{auto}; here the {known.cards} of `{known.name}` in our catalogue stay")
        return None
    if gpus is None:
        result.notes.append(f"{auto}; here no GPU is seen, so it is 1")
        result.todo.append(f"engines.{name}.tensor_parallel: as many GPUs as hold the weights, if 1 does not")
        return None
    result.notes.append(
        f"{auto}; here it is written down: {gpus}. A small model is faster as several engines (`shards`)"
    )
    return gpus


def _without_meaning(config: Config, model: Config, result: Imported) -> None:
    """Keys that decide nothing here, and why."""
    judge = section(config, "judge_model")
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


def _judge(asked: Config, judges: Sequence[str]) -> tuple[str, list[str], list[str]]:
    """Return the name of a judge of our catalogue, what was changed and why, and what is left to do.

    The published judge's prompt has no licence and is not here, so the rubric is always ours.

    Raises:
        UserError: for a value of the wrong kind.
    """
    notes, todo = [], []
    repo = weights_name(asked, "judge_model.") or ITS_JUDGE
    wanted = _bare(repo.rsplit("/", 1)[-1])
    found = [name for name in judges if wanted and _bare(name) == wanted]
    judge = found[0] if found else judges[0]
    if found:
        notes.append(
            f"judge_model.name_or_path: {repo} is the judge `{judge}` of our catalogue, with our rubric; "
            "gpu_memory_utilization and tensor_parallel_size, which hold for the judge too there, stay as its engine "
            "has them here"
        )
    else:
        todo.append(f"judges: our catalogue has no judge with {repo}; `{judge}` stands there until you write one")
    length, answer = (whole(asked, key, 0, "judge_model.") for key in ("max_model_len", "max_new_tokens"))
    if length or answer:
        both = {"max_model_len": length, "max_new_tokens": answer}
        told = ", ".join(f"{key} {value}" for key, value in both.items() if value)
        room = f", so {length - answer} tokens for rubric and answer" if length and answer else ""
        notes.append(
            f"judge_model.{told}{room}: left out; of a longer judge prompt the published code cuts off the start, "
            "which holds the instructions; here the answer is cut in its middle, marked and counted, never the "
            "instructions"
        )
    if drawn := [key for key in ("num_return_sequences", "temperature", "top_p", "top_k") if key in asked]:
        notes.append(
            f"judge_model.{', '.join(drawn)}: left out; the entry of the judge says how its verdicts are drawn"
        )
    if marks := [key for key in ("thinking-string", "thinking_string") if key in asked]:
        notes.append(
            f"judge_model.{marks[0]}: left out; the entry of the judge knows its own reasoning. The published code "
            "reads the judge with the mark of the model that it judges"
        )
    return judge, notes, todo


def _bare(name: str) -> str:
    """Letters and digits of a name alone, as `GPT_OSS-20b` is `gpt-oss-20b`; empty for one without any."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
