"""A config of the published library as a study and a catalogue of ours, with what changed and why."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.hints import nearest
from refusal_eval.core.yaml_files import read_yaml

KNOWN = {
    *("dataset_splits", "model", "judge_model", "gpu_memory_utilization", "tensor_parallel_size", "output_dir"),
    *("continue_from_checkpoint", "enforce_eager", "pipeline_parallel_size"),
}
MARK_KEYS = ("thinking-string", "thinking_string")
DRAWN = ("num_return_sequences", "temperature", "top_p", "top_k")
KNOWN_OF_A_MODEL = {"name_or_path", "max_model_len", "max_new_tokens", "batch_size", *MARK_KEYS, *DRAWN}
# What its README's example and code use where a config says nothing.
MAX_MODEL_LEN, MAX_NEW_TOKENS, SAMPLES, MEMORY_SHARE = 16384, 8192, 5, 0.9
ITS_JUDGE = "openai/gpt-oss-20b"  # what its configs name
ITS_DATA = ("MultiverseComputingCAI/llm-refusal-evaluation", "Iker/refusal-evaluation")

OPENS, ENDS = re.compile(r"<([A-Za-z_]+)>|\[([A-Z_]+)\]"), re.compile(r"</([A-Za-z_]+)>|\[/([A-Z_]+)\]")
LOOKS_LIKE_REASONING = re.compile(r"think|reason|qwq|-r1|magistral|gpt-oss", re.IGNORECASE)
MOST = 10**9  # of any number: beyond it is no length, count or temperature


@dataclass(frozen=True)
class Values:
    """A config, or a section of one, whose `name` stands before the keys in messages.

    Every reader raises UserError for a value of another kind.
    """

    values: Mapping[str, Any]
    name: str = ""

    def section(self, key: str) -> Values:
        """Return a section; a missing one is empty."""
        value = {} if self.values.get(key) is None else self.values[key]
        if not isinstance(value, dict):
            raise self._wrong(key, value, "a mapping of keys to values")
        return Values({str(name): item for name, item in value.items()}, f"{key}.")

    def whole(self, key: str, default: int, least: int = 1) -> int:
        """Return a whole number; where the key is missing or empty the default, what the published code takes then."""
        value = self.number(key, least, whole=True)
        return default if value is None else int(value)

    def number(self, key: str, least: float = 0.0, most: float | None = None, whole: bool = False) -> float | None:
        """Return a number in [least, most], None where the key is missing or empty."""
        value = self.values.get(key)
        if value is None:
            return None
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        if not fits or not least <= value <= (most or MOST) or (whole and value != int(value)):
            limits = f"of at least {least:g}" if most is None else f"from {least:g} to {most:g}"
            raise self._wrong(key, value, f"a {'whole ' if whole else ''}number {limits}")
        return float(value)

    def text(self, key: str) -> str | None:
        """Return a text without white space around it, None where the key is missing or empty."""
        value = self.values.get(key)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            raise self._wrong(key, value, "a text (put it in quotes)")
        return value.strip()

    def weights(self) -> str | None:
        """Return `name_or_path`, a repository or a folder, without the slash that a folder may end with."""
        name = self.text("name_or_path")
        return None if name is None else name.rstrip("/") or name

    def _wrong(self, key: str, value: Any, wanted: str) -> UserError:
        # Python writes no number of thousands of digits.
        shown = "a very large number" if isinstance(value, int) and abs(value) > 10**18 else repr(value)
        return UserError(f"`{self.name}{key}` is {shown}; it has to be {wanted}")


@functools.cache
def words() -> dict[str, dict[str, str]]:
    """Return what an import says, by kind (`notes`, `todo`, `refused`) and by what it is about."""
    found: dict[str, dict[str, str]] = read_yaml(Path(__file__).with_name("import_words.yaml"))
    return found


def refused(about: str, **values: Any) -> UserError:
    """Return the error for a config that cannot be imported."""
    return UserError(words()["refused"][about].format(**values))


@dataclass
class Imported:
    """What a published config became."""

    study: dict[str, Any] = field(default_factory=dict)  # the study file
    catalogue: dict[str, Any] = field(default_factory=dict)  # the catalogue file that the study names
    notes: list[str] = field(default_factory=list)  # what was changed and why, in the order of the config
    todo: list[str] = field(default_factory=list)  # what the user has to fill in before the study runs
    of_judge: list[str] = field(default_factory=list)  # those of the notes that are about our judge

    def note(self, about: str, **values: Any) -> None:
        """Add a note."""
        self.notes.append(words()["notes"][about].format(**values))
        if about.startswith("judge"):
            self.of_judge.append(self.notes[-1])

    def note_unknown(self, found: Mapping[str, Any], known: Collection[str], section: str) -> None:
        """Add a note for each key that is none of the library's."""
        for key in found:
            if key not in known:
                self.note("unknown_key", key=f"{section}{key}", hint=nearest(str(key), known))

    def do(self, about: str, **values: Any) -> None:
        """Add what the user has to do."""
        self.todo.append(words()["todo"][about].format(**values))


@dataclass(frozen=True)
class ShippedEngine:
    """An engine of our own catalogue."""

    name: str
    cards: int = 1  # GPUs that share each layer (`tensor_parallel`)
    reasoning: Mapping[str, str] | None = None  # how its models' reasoning is found; None if they do not reason
    off: str | None = None  # why a study has to allow it; None if it need not
    pinned: bool = True  # whether its entry names a commit


@dataclass(frozen=True)
class Shipped:
    """What our own catalogue has: its splits, its judges, and its engines by the hub's repository.

    `off` are the splits and judges that a study has to allow, each with the reason; `taken` are the names of its
    engines and models, which entries of a study would replace; `unpinned` are splits and judges without a
    commit or hash.
    """

    splits: Sequence[str]
    judges: Sequence[str]
    engines: Mapping[str, ShippedEngine]
    off: Mapping[str, str] = field(default_factory=dict)
    taken: Collection[str] = ()
    unpinned: Collection[str] = ()


def imported(
    config: Mapping[str, Any],
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
        raise refused("taken", name=name)
    wanted = {"model": (dict, "a mapping with `name_or_path`"), "dataset_splits": (list, "a list of splits")}
    for key, (kind, what) in wanted.items():
        if not isinstance(config.get(key), kind) or not config[key]:
            raise refused("no_config", key=key, what=what)
    result = Imported()
    result.note_unknown(config, KNOWN, "")
    given = Values(config)
    model, judge_model = given.section("model"), given.section("judge_model")
    result.note_unknown(model.values, KNOWN_OF_A_MODEL, model.name)
    repo = model.weights()
    if repo is None:
        raise refused("no_weights", section="model")
    samples = model.whole("num_return_sequences", SAMPLES)
    known = shipped.engines.get(repo) if folder is None else None
    engine = _engine(given, name, known, gpus, result)
    if known is not None:
        result.note("known_engine" if known.pinned else "known_engine_open", repo=repo, name=known.name)
        if not known.pinned:
            result.do("pin", what=f"engines.{name}.weights ({repo})", name=name)
        engine = {"like": known.name, **engine}
    elif folder is not None:
        engine = {"weights": {"kind": "folder", "path": folder}, **engine}
    else:
        result.do("commit", name=name, repo=repo)
        engine = {"weights": {"kind": "hub", "repo": repo, "revision": None}, **engine}
    sampling = {"max_tokens": model.whole("max_new_tokens", MAX_NEW_TOKENS), **_sampling(model, protocol, result)}
    entry: dict[str, Any] = {"engine": name, "sampling": sampling}
    if reasoning := _reasoning(model, repo, name, known, protocol, result):
        entry["reasoning"] = reasoning
    if sampling.get("temperature") == 0 and samples > 1:
        result.do("greedy", name=name, samples=samples)
    splits = _splits(config["dataset_splits"], shipped, result)
    judge = _judge(judge_model, shipped.judges, result)
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
    for one in (*splits, judge):
        if one in shipped.unpinned:
            result.do("pin", what=f"`{one}`", name=name)
    off = {one: shipped.off[one] for one in (*splits, judge) if one in shipped.off}
    if known is not None and known.off is not None:
        off[name] = known.off
    if off:
        result.study["allow"] = list(off)
    for one, why in off.items():
        result.do("allow", name=one, why=why)
    if protocol == "default":
        result.study["tables"] = ["protocol_effects"]
    if "batch_size" in model.values or "batch_size" in judge_model.values:
        result.note("batch_size")
    for key in ("enforce_eager", "continue_from_checkpoint", "output_dir"):  # they decide nothing here
        if key in config:
            result.note(key, study=name)
    return result


def _engine(
    config: Values, name: str, known: ShippedEngine | None, gpus: int | None, result: Imported
) -> dict[str, Any]:
    """What the config says of the engine but its weights; of one of our catalogue, what is different."""
    model = config.section("model")
    engine: dict[str, Any] = {"max_model_len": model.whole("max_model_len", MAX_MODEL_LEN, least=16)}
    cards = _tensor_parallel(config, known, name, gpus, result)
    if cards is not None:
        engine["tensor_parallel"] = cards
    if (stages := config.whole("pipeline_parallel_size", 1)) > 1:
        engine["pipeline_parallel"] = stages
    share = config.number("gpu_memory_utilization", least=0.01, most=1.0)
    if share is not None or known is None:
        engine["memory_share"] = share or MEMORY_SHARE
    return engine


def _tensor_parallel(
    config: Values, known: ShippedEngine | None, name: str, gpus: int | None, result: Imported
) -> int | None:
    """How many GPUs share each layer; None to leave it to the engine of our catalogue, or to its default of 1."""
    asked = config.values.get("tensor_parallel_size")
    if asked is not None and asked != "auto":
        if not isinstance(asked, int) or isinstance(asked, bool) or asked < 1:
            raise refused("gpus", value=asked)
        if known is not None and asked < known.cards:
            result.do("few_gpus", name=name, asked=asked, known=known.name, cards=known.cards)
        return asked
    auto = "tensor_parallel_size: auto" + ("" if asked else " (it is missing)")
    auto += " takes all GPUs of the machine for each model"
    if known is not None:
        result.note("auto_known", auto=auto, cards=known.cards, name=known.name)
        return None
    result.note("auto_unseen" if gpus is None else "auto_all", auto=auto, gpus=gpus)
    if gpus is None:
        result.do("gpus", name=name)
    return gpus


def _sampling(model: Values, protocol: str, result: Imported) -> dict[str, Any]:
    """The config's sampling, which the published code reads and does not use."""
    asked: dict[str, Any] = {"temperature": model.number("temperature"), "top_p": model.number("top_p", most=1.0)}
    asked["top_k"] = None if model.values.get("top_k") is None else model.whole("top_k", 0, least=-1)
    asked = {key: value for key, value in asked.items() if value is not None}
    neutral = {"temperature": 1.0, "top_p": 1.0, "top_k": -1}
    if any(value != neutral[key] for key, value in asked.items()):
        entries = ", ".join(f"{key} {value:g}" for key, value in asked.items())
        result.note("sampling", entries=entries, happens=words()["notes"][f"sampling_{protocol}"])
    if "top_k" in asked:
        asked["top_k"] = max(0, asked["top_k"])  # there -1 is off, here 0
    return asked


def _reasoning(
    model: Values, repo: str, name: str, known: ShippedEngine | None, protocol: str, result: Imported
) -> dict[str, str] | None:
    """The `reasoning` of the model, None if it has none; `compat` takes no marks where the config has none."""
    given = next((mark for key in MARK_KEYS if (mark := model.text(key))), None)
    shipped = {key: value for key, value in ((known and known.reasoning) or {}).items() if value}
    if given is None:
        if shipped and protocol != "compat":
            result.note("known_marks", repo=repo)
            return shipped
        if shipped or LOOKS_LIKE_REASONING.search(repo):
            result.note("looks_like_reasoning", repo=repo)
        return None
    marks = pair_of(given)
    if marks is not None:
        ends = marks["end"] == given
        result.note("end_mark" if ends else "start_mark", mark=given, other=marks["start" if ends else "end"])
    if shipped and shipped != marks:
        entries = "channels of harmony" if "format" in shipped else f"{shipped.get('start')} and {shipped.get('end')}"
        result.note("other_marks", given=given, repo=repo, entries=entries)
        return shipped
    if marks is None:
        result.do("start_mark", name=name, mark=given)
    return marks or {"end": given}


def pair_of(mark: str) -> dict[str, str] | None:
    """Return both marks of a pair such as `<think>` and `</think>` by one of them, None for one of no such form."""
    found = ENDS.fullmatch(mark) or OPENS.fullmatch(mark)
    if found is None:
        return None
    tag, word = found[1], found[2]
    return {"start": f"<{tag}>", "end": f"</{tag}>"} if tag else {"start": f"[{word}]", "end": f"[/{word}]"}


def _splits(asked: Sequence[Any], shipped: Shipped, result: Imported) -> list[str]:
    names = []
    for item in asked:
        split = str(item)
        if isinstance(item, Mapping):
            source, split = str(item.get("dataset_id", "")), str(item.get("split", ""))
            if source not in ITS_DATA or not split:
                result.do("own_split", what=f"{source or 'a data set'} {split}".rstrip())
                continue
        if split in shipped.splits:
            names.append(split)
        else:
            result.do("no_split", split=split, hint=nearest(split, shipped.splits))
    if not names:
        raise refused("no_split", todo="; ".join(result.todo))
    if len(set(names)) < len(names):
        result.note("split_twice")
    unpinned = [name for name in dict.fromkeys(names) if name in shipped.unpinned]
    result.note("splits_open" if unpinned else "splits", names=", ".join(unpinned))
    return list(dict.fromkeys(names))


def _judge(asked: Values, judges: Sequence[str], result: Imported) -> str:
    """The judge of our catalogue that comes nearest to the config's.

    The published judge's prompt has no licence and is not here, so the rubric is always ours.
    """
    result.note_unknown(asked.values, KNOWN_OF_A_MODEL, asked.name)
    repo = asked.weights() or ITS_JUDGE
    wanted = _bare(repo.rsplit("/", 1)[-1])
    found = next((name for name in judges if wanted and _bare(name) == wanted), None)
    judge = found or judges[0]
    (result.note if found else result.do)("judge", repo=repo, judge=judge)
    both = {key: asked.whole(key, 0) for key in ("max_model_len", "max_new_tokens")}
    if any(both.values()):
        entries = ", ".join(f"{key} {value}" for key, value in both.items() if value)
        left = both["max_model_len"] - both["max_new_tokens"]
        room = f", so {left} tokens for rubric and answer" if all(both.values()) else ""
        result.note("judge_lengths", entries=entries, room=room)
    if drawn := [key for key in DRAWN if key in asked.values]:
        result.note("judge_sampling", keys=", ".join(drawn))
    if marks := [key for key in MARK_KEYS if key in asked.values]:
        result.note("judge_reasoning", key=marks[0])
    return judge


def _bare(name: str) -> str:
    """Letters and digits of a name alone, as `GPT_OSS-20b` is `gpt-oss-20b`; empty for one without any."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
