"""What values of a config look like: names, hashes, paths, and how to walk through the types of an entry."""

import datetime
import functools
import inspect
import math
import types
import typing
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, StringConstraints
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from refusal_eval.config.kinds import NameIn, OfKind
from refusal_eval.core.files import inner_name
from refusal_eval.core.recorded_files import IN_ROWS

KeyPath = tuple[str | int, ...]

MOST_CHARACTERS = 100  # of a name

# Patterns of texts, each with the words that a user reads when a text does not match.
FORMS = {
    (
        SLUG := r"^[a-z0-9][a-z0-9._-]{0,99}$"
    ): "a name: at most 100 lower-case letters, digits and `.` `_` `-`, a letter or digit first",
    (COMMIT := r"^[0-9a-f]{40}$"): (
        "a full commit hash (40 hex digits); branches and tags can move. Write `revision: null` and run "
        "`refusal-eval pin` on the study: it finds today's commit"
    ),
    (SHA256 := r"^[0-9a-f]{64}$"): "a SHA-256 (64 hex digits in lower case)",
    (PACKAGE := r"^[A-Za-z0-9][A-Za-z0-9._-]*$"): "the name of a package on PyPI",
    (
        NUMBERED := r"^[A-Za-z0-9][A-Za-z0-9._-]*\{part\}[A-Za-z0-9._-]*$"
    ): "the names of packages on PyPI, with `{part}` for the number in them",
    (NUMBERED_FILE := r"\{part(:02)?\}"): "a path with `{part}` or `{part:02}` for the number in it",
    (VERSION := r"^[0-9][A-Za-z0-9.!+_-]*$"): "one exact version, such as `1.2.0`",
    (
        ROWS_URL := r"^(https://[^\s/?#@]+|http://127\.0\.0\.1(:\d+)?)/[^\s?#]+\.(jsonl?|csv|parquet)$"
    ): "an https address of a .jsonl, .json, .csv or .parquet file, without `?` and what follows",
    (PAGE := r"^https?://\S+$"): "the address of a web page",
    (REPO := r"^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*$"): "a repository on the hub, `owner/name`",
    (ROWS := r"\.(jsonl?|csv|parquet)$"): "a file that ends in .jsonl, .json, .csv or .parquet",
    (CSV := r"\.csv$"): "a file that ends in .csv",
    (
        BUNDLED := r"^[a-z0-9_]+\.(jsonl?|csv|parquet)$"
    ): "the name of a .jsonl, .json, .csv or .parquet file in config/prompts/",
    (GGUF := r"\.gguf$"): "a file that ends in .gguf",
    (
        ARGUMENT := r"^[a-z][a-z0-9.-]*$"
    ): "a vLLM argument by its long name, such as `max-num-seqs`, without leading dashes",
    (CURRENCY := r"^[A-Z]{3}$"): "a currency by its three letters, such as `USD`",
    (LENGTH := r"^\d+(\.\d+)? ?(cm|mm|in|pt)$"): "a length with its unit, such as `13.9cm` or `5.5in`",
    (
        PAPER_WIDTH := r"^(column|page|neurips|icml|acl|iclr|nature|\d+(\.\d+)? ?(cm|mm|in|pt))$"
    ): "`column`, `page`, the format of a paper (neurips, icml, acl, iclr or nature) or a length such as `13.9cm`",
    (
        POSITIONS := r"^(last_prompt_token|answer_mean|prompt_token-[1-9][0-9]{0,2})$"
    ): "`last_prompt_token`, `answer_mean`, or a token counted from the end of the prompt, such as `prompt_token-5`",
}

TEMPLATE_HELP = (
    "`default` is the tokenizer's chat template, `none` sends the text as it is (base models), else a Jinja file."
)


def wrong_with_model_folder(path: str, names: Collection[str]) -> Iterator[str]:
    """Yield what a folder with files of these names lacks to be a model's."""
    if "config.json" not in names:
        yield f"{path} has no config.json: it is not a model folder"
    if not any(name.endswith(".safetensors") for name in names):
        yield f"{path} has no *.safetensors file: the weights are missing"
    if not {"tokenizer.json", "tokenizer.model", "vocab.json"} & set(names):
        yield f"{path} has no tokenizer (tokenizer.json or tokenizer.model)"


@dataclass(frozen=True)
class OnDisk:
    """Marks a text as a path: what must be there, and the words that are no paths.

    Paths are relative to the YAML file that names them; an `output` is relative to where snakemake runs.
    """

    what: Literal["file", "file or folder", "model folder", "folder", "answers folder", "program", "output"]
    words: tuple[str, ...] = ()
    template: bool = False  # whether the file is a chat template
    # yields what is wrong with a folder, from its path and the names of its files
    check: Callable[[str, Collection[str]], Iterator[str]] | None = None


Text = Annotated[str, StringConstraints(min_length=1)]
INNER = AfterValidator(inner_name)
FileName = Annotated[str, INNER]
Slug = Annotated[str, StringConstraints(pattern=SLUG)]
CommitHash = Annotated[str, StringConstraints(pattern=COMMIT)]
Sha256 = Annotated[str, StringConstraints(pattern=SHA256)]
PackageName = Annotated[str, StringConstraints(pattern=PACKAGE)]
Version = Annotated[str, StringConstraints(pattern=VERSION)]
RepoId = Annotated[str, StringConstraints(pattern=REPO)]
BundledName = Annotated[str, StringConstraints(pattern=BUNDLED)]
RowsInWheel = Annotated[str, StringConstraints(pattern=ROWS), INNER]
RowsInRepo = Annotated[str, StringConstraints(pattern=ROWS), INNER]
RowsUrl = Annotated[str, StringConstraints(pattern=ROWS_URL)]
Currency = Annotated[str, StringConstraints(pattern=CURRENCY)]
Page = Annotated[str, StringConstraints(pattern=PAGE)]
NumberedPackage = Annotated[str, StringConstraints(pattern=NUMBERED)]
NumberedFile = Annotated[str, StringConstraints(pattern=NUMBERED_FILE), INNER]
GgufInWheel = Annotated[str, StringConstraints(pattern=GGUF), INNER]
ArgumentName = Annotated[str, StringConstraints(pattern=ARGUMENT)]
FilePath = Annotated[str, StringConstraints(min_length=1), OnDisk("file")]
FileOrFolder = Annotated[str, StringConstraints(min_length=1), OnDisk("file or folder")]
RowsPath = Annotated[str, StringConstraints(pattern=ROWS), OnDisk("file")]
ClustersPath = Annotated[str, StringConstraints(pattern=CSV), OnDisk("file")]
ModelFolder = Annotated[str, StringConstraints(min_length=1), OnDisk("model folder", check=wrong_with_model_folder)]
AnswersFolder = Annotated[str, StringConstraints(min_length=1), OnDisk("answers folder", words=(IN_ROWS,))]
ProgramPath = Annotated[str, StringConstraints(min_length=1), OnDisk("program")]
OutputFolder = Annotated[str, StringConstraints(min_length=1), OnDisk("output")]
Template = Annotated[str, StringConstraints(min_length=1), OnDisk("file", words=("default", "none"), template=True)]


def _known_encoding(name: str) -> str:
    """Refuse what Python cannot decode text with."""
    try:
        "".encode(name)
    except (LookupError, ValueError):  # such as `hex`, which is one of bytes
        known = "such as `utf-8`, `gb18030` or `cp1252`"
        raise ValueError(f"{shown(name)} is no text encoding that Python knows, {known}") from None
    return name


Encoding = Annotated[str, StringConstraints(min_length=1), AfterValidator(_known_encoding)]


def plain(value: Any) -> Any:
    """Return a YAML value with days as ISO text, so that it can be written as JSON.

    Raises:
        ValueError: for what JSON cannot hold (NaN, binary data, sets, keys that are not text).
    """
    if isinstance(value, datetime.date):  # a datetime is one too
        return value.isoformat()
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise ValueError(f"the key {shown(key)} must be text: put it in quotes")
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if not (value is None or isinstance(value, str | int | float)) or (
        isinstance(value, float) and not math.isfinite(value)
    ):
        raise ValueError(f"{shown(value)} cannot be written as JSON")
    return value


def _no_boolean(value: Any) -> Any:
    """Refuse what Python takes for 1 and 0."""
    if isinstance(value, bool):
        raise PydanticCustomError("number_type", "must be a number")
    return value


def _no_number(value: Any) -> Any:
    """Refuse what pydantic takes for seconds since 1970."""
    if isinstance(value, int | float):
        raise PydanticCustomError("day_type", "must be a day")
    return value


Whole = Annotated[int, BeforeValidator(_no_boolean)]
Number = Annotated[float, BeforeValidator(_no_boolean)]
Day = Annotated[datetime.date, BeforeValidator(_no_number)]
PlainMapping = Annotated[dict[str, Any], BeforeValidator(plain)]

# What rendering itself gives to a chat template, and how it is asked to.
GIVEN_BY_US = (
    *("messages", "conversation", "chat_template", "add_generation_prompt", "continue_final_message", "tokenize"),
    *("sanitize_control_tokens", "padding", "truncation", "max_length", "return_tensors", "return_dict"),
    *("return_assistant_tokens_mask", "tokenizer_kwargs"),
)


def _not_given_by_us(options: dict[str, Any]) -> dict[str, Any]:
    for name in options:
        if name in GIVEN_BY_US:
            raise ValueError(f"`{name}` is no variable of a chat template that you can set; leave it out")
    return options


TemplateOptions = Annotated[PlainMapping, AfterValidator(_not_given_by_us)]


def refuse_options_without_template(template: str, options: dict[str, Any]) -> None:
    """Raise `ValueError` for variables of a chat template where there is none."""
    if template == "none" and options:
        raise ValueError("`template_options` are for a chat template, and `template: none` has none; leave one out")


def refuse_clusters_without_ids(entry: Any) -> None:
    """Raise `ValueError` for a split or gold whose file of clusters cannot be matched with its rows."""
    if entry.clusters is not None and entry.columns.id is None:
        raise ValueError("`clusters` needs `columns.id`: it names rows by the source's own ids")
    if entry.clusters is not None and entry.columns.cluster is not None:
        raise ValueError("`clusters` and `columns.cluster` are two ways to say one thing; leave one out")


class Entry(BaseModel):
    """Base of everything a user writes: unknown keys are mistakes, values never change after validation.

    Attributes:
        KIND_KEY: the key by which classes of one union are told apart.
    """

    KIND_KEY: ClassVar[str] = "kind"

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def shown(value: Any) -> str:
    """Return a value as a message shows it: short, on one line, as YAML would have it."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    if isinstance(value, datetime.date):
        return f"the day {value.isoformat()}"
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


# ---------------------------------------------------------------- walking through types


def leaves(annotation: Any, marks: tuple[Any, ...] = ()) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Yield the members of a union (or the one type), each with the marks that `Annotated` gives it."""
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        base, *more = typing.get_args(annotation)
        kinds = next((mark for mark in more if isinstance(mark, OfKind | NameIn)), None)
        yield from leaves(base if kinds is None else kinds.annotation(), (*marks, *more))
    elif origin in (typing.Union, types.UnionType):
        for member in typing.get_args(annotation):
            yield from leaves(member, marks)
    else:
        yield annotation, marks


def is_entry(annotation: Any) -> bool:
    """Tell whether a type is one of our classes of entries."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


@functools.cache
def fields_of(entry: type[BaseModel]) -> dict[str, Any]:
    """Return the fields of a class with their full annotations, in the order in which they are written.

    Those that it inherits come last.
    """
    hints = typing.get_type_hints(entry, include_extras=True)
    own = inspect.get_annotations(entry)
    names = sorted(entry.model_fields, key=lambda name: name not in own)
    return {entry.model_fields[name].alias or name: hints[name] for name in names}


def infos_of(entry: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return what a class says of its keys: `class` is another word in Python."""
    return {field.alias or name: field for name, field in entry.model_fields.items()}


def kind_key(entry: type[BaseModel]) -> str:
    """Return the key that tells a class apart from the others of its union."""
    return str(getattr(entry, "KIND_KEY", Entry.KIND_KEY))


def kinds_of(entry: type[BaseModel]) -> tuple[str, ...]:
    """Return the values that a class allows for the key that tells it apart (empty when it has none)."""
    kind = fields_of(entry).get(kind_key(entry))
    return typing.get_args(kind) if kind is not None else ()


def paths_on_disk(annotation: Any, value: Any, path: KeyPath = ()) -> dict[KeyPath, OnDisk]:
    """Return where a value (valid or not) holds paths, and what each should lead to."""
    found: dict[KeyPath, OnDisk] = {}
    if not isinstance(value, str | dict | list):  # as most keys, which are not given
        return found
    for leaf, marks in leaves(annotation):
        if isinstance(value, str):
            for mark in marks:
                if isinstance(mark, OnDisk) and value and value not in mark.words:
                    found[path] = mark
        elif is_entry(leaf) and isinstance(value, dict):
            key, kinds = kind_key(leaf), kinds_of(leaf)
            if key in value and kinds and value[key] not in kinds:
                continue
            for name, hint in fields_of(leaf).items():
                found |= paths_on_disk(hint, value.get(name), (*path, name))
        elif typing.get_origin(leaf) is list and isinstance(value, list):
            for index, item in enumerate(value):
                found |= paths_on_disk(typing.get_args(leaf)[0], item, (*path, index))
        elif typing.get_origin(leaf) is dict and isinstance(value, dict):
            for key, item in value.items():
                found |= paths_on_disk(typing.get_args(leaf)[1], item, (*path, key))
    return found
