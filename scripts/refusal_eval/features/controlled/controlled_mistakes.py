"""Mistakes of splits of kind `controlled`: models that cannot be searched with, tokenizers, columns and dialogues."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from refusal_eval.config.capture_mistakes import CAPTURED, KERNELS
from refusal_eval.config.change import changes_of
from refusal_eval.config.checked_study import CheckedStudy
from refusal_eval.config.engine_entry import Engine
from refusal_eval.config.entries import Model
from refusal_eval.config.problems import Mistake
from refusal_eval.core.errors import UserError
from refusal_eval.core.hints import nearest
from refusal_eval.features.controlled.controlled_rows import KEPT, ControlledRows
from refusal_eval.weights.weights_manifest import manifest_folder


def controlled_mistakes(study: CheckedStudy) -> Iterator[Mistake]:
    """Yield what is wrong between such splits and what they name."""
    for name, split in study.entries("splits").items():
        if not isinstance(split.source, ControlledRows):
            continue
        here = ("splits", name, "source")
        for key, message in _wrong_with_source(study, split.source):
            yield (*here, key), message
        if unknown := study.catalogue.lacks("split", split.source.refusals.split):
            yield (*here, "refusals", "split"), unknown
        parent = study.catalogue.valid["splits"].get(split.source.seeds)
        if parent is None:
            continue
        known = [*KEPT, *(parent.columns.keep or [])]
        for column in split.columns.keep or ():
            if column not in known:
                what = f"split `{split.source.seeds}` keeps no column `{column}` (`columns.keep`)"
                yield ("splits", name, "columns", "keep"), what + nearest(column, known)
        if parent.dialogue is not None:
            what = f"the prompts of `{split.source.seeds}` are dialogues; name a split whose rows are one question each"
            yield (*here, "seeds"), what
        if split.dialogue is not None:
            yield ("splits", name, "dialogue"), f"the prompts of `{split.source.seeds}` are no dialogues; leave it out"


def _wrong_with_source(study: CheckedStudy, source: ControlledRows) -> Iterator[tuple[str, str]]:
    """Yield the key of a source, and what is wrong with what it names."""
    if unknown := study.catalogue.lacks("model", source.by):
        yield "by", unknown
    found: dict[str, Engine] = {}
    for role, name in {"by": source.by, "target": source.target}.items():
        model = study.catalogue.valid["models"].get(name)
        if model is None or model.engine is None:
            continue
        for message in _wrong_with_model(name, model, is_target=role == "target"):
            yield role, message
        engine = study.engine_of(model)
        if engine is not None:
            if message := next(_wrong_with_engine(model.engine, engine), ""):
                yield role, message
            found[role] = engine
    if len(found) == 2 and found["by"] != found["target"]:
        if found["by"].device_here() != found["target"].device_here():
            yield (
                "by",
                f"`{source.by}` and `{source.target}` are loaded together, on one device; their engines name two",
            )
        if _other_tokenizers(study, found["by"], found["target"]):
            why = "the tokens of one are compared with those of the other"
            yield "by", f"`{source.by}` and `{source.target}` have different tokenizers, and {why}; take one family"


def _wrong_with_model(name: str, model: Model, is_target: bool) -> Iterator[str]:
    if model.recorded:
        yield f"`{name}` has recorded answers; it must be a model that is asked"
    for change in changes_of(model):
        yield f"`{name}` has {change.words} (`{change.name}`), which the search does not know; name a model without"
    if model.prefill:
        yield f"`{name}` has a `prefill`, which the search does not know; name a model without"
    if is_target and model.reasoning is not None:
        yield f"`{name}` has `reasoning`, and the refusal that is wanted begins its reply; name a model without"


def _wrong_with_engine(name: str, engine: Engine) -> Iterator[str]:
    if getattr(engine, "weights", None) is None or engine.device_here() is None:
        yield f"its engine `{name}` of kind `{engine.kind}` has no weights here, and the search computes with them"
        return
    if "writes_text" not in engine.able():
        yield f"its engine `{name}` of kind `{engine.kind}` writes no text"
    identity = engine.identity({})
    kernels_only = set(identity.get("args", ())) <= KERNELS
    more = sorted(set(identity) - CAPTURED - {"kind"} - ({"args"} if kernels_only else set()))
    if more:
        named = " and ".join(f"`{key}`" for key in more)
        yield f"its engine `{name}` sets {named}, with which the search was never tried"
    if engine.nodes_used() > 1:
        yield f"its engine `{name}` takes {engine.nodes_used()} machines, and the search runs on one"


def _other_tokenizers(study: CheckedStudy, *engines: Engine) -> bool:
    """Tell whether engines are known to have different tokenizers; files that are not here yet are looked at later."""
    files = [file for engine in engines if (file := _tokenizer_file(study, engine)) is not None]
    if len(files) < 2:
        return False
    first, second = (file.read_bytes() for file in files)
    return first != second and _vocabulary(first) != _vocabulary(second)


def _tokenizer_file(study: CheckedStudy, engine: Engine) -> Path | None:
    weights = getattr(engine, "weights", None)
    if weights is None:
        return None
    if not weights.fetched:
        folders = [Path(weights.path)]
    else:
        manifest, folders = Path(weights.copy_file(str(study.settings.cache_dir))), []
        for path in (manifest, manifest.with_name("tokenizer_manifest.json")):
            with contextlib.suppress(UserError):  # not fetched yet
                folders.append(manifest_folder(path))
    return next((file for folder in folders if (file := folder / "tokenizer.json").is_file()), None)


def _vocabulary(content: bytes) -> object:
    """Return the pieces of a tokenizer's file with their numbers; an empty list for one that cannot be read."""
    try:
        read = json.loads(content)
        added = {token["content"]: token["id"] for token in read.get("added_tokens") or []}
        return read["model"]["vocab"], added
    except (ValueError, KeyError, TypeError):
        return []
