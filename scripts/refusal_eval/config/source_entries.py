"""Where bytes come from: what all sources of rows, of weights and of other files have, and what the workflow asks them.

Kinds of sources of rows are in data/row_kinds.py, those of weights in weights/weight_kinds.py.
"""

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from refusal_eval.config.kinds import ROW_SOURCES, WEIGHT_SOURCES, OfKind
from refusal_eval.config.problems import Mistake
from refusal_eval.config.shapes import Entry
from refusal_eval.core.files import sha256_of

COMMIT_HELP = (
    "Full commit hash (40 hex digits). `null` where it is not known: `refusal-eval pin` finds it for the study's lock "
    "file."
)
ROWS = "rows.jsonl"  # what becomes in the cache of rows that are no single file


class Source(Entry):
    """What all sources have.

    Attributes:
        wants: what is taken from it, in one word; empty for a file that an entry names.
        fetched: a copy of it is made in the cache.
        pin: the field with the hash that pins it, which a lock file may fill; None where nothing has to be locked.
        pin_words: what that hash is.
        taken_from: where it is fetched from: the hub, a URL, or a wheel on PyPI.
        role: what it is in a bibliography.
        reading: fields that say how it is read, and not what it is.
    """

    fetched: ClassVar[bool] = True
    pin: ClassVar[str | None] = None
    pin_words: ClassVar[str] = "commit hash"
    taken_from: ClassVar[Literal["hub", "url", "wheel"] | None] = None
    role: ClassVar[str]
    wants: ClassVar[str] = ""
    reading: ClassVar[tuple[str, ...]] = ()

    kind: str

    @property
    def made(self) -> Mapping[str, int]:
        """Which code of our own made its copy in the cache, with its version.

        No copy is made again, so that what another version makes is another copy.
        """
        return {}

    @property
    def copy_id(self) -> str:
        """16 hex digits that name its copy in the cache. Fields without a value, which may come later, do not count."""
        described = self.model_dump(mode="json", exclude_none=True, exclude=set(self.reading))
        return sha256_of(described | dict(self.made))[:16]

    @property
    def open_pin(self) -> str | None:
        """The field that must hold a hash and is null; None when all is pinned."""
        return self.pin if self.pin is not None and getattr(self, self.pin) is None else None

    @property
    def known_as(self) -> str:
        """The repository, package or address that others and a lock file know it by; empty for what lies here."""
        return ""

    @property
    def shown(self) -> str:
        """What it is, as people say it."""
        return self.known_as

    @property
    def bibtex_key(self) -> str:
        """The key of its entry in a bibliography; empty where it has none."""
        return f"{self.kind}-{re.sub(r'[^A-Za-z0-9]+', '-', self.known_as).strip('-')}" if self.known_as else ""

    def copy_file(self, cache: str) -> str:
        """Return the file in the cache that is there once it was fetched, for a source that is."""
        raise NotImplementedError

    def bibtex(self, clean: Callable[[str], str]) -> list[str]:
        """Return the fields of an entry that nobody wrote: its name, address and revision, and no more.

        Args:
            clean: makes a text fit for BibTeX.
        """
        return []

    def in_words(self, quoted: Callable[[str], str], sha256: str = "") -> str:
        """Return where it comes from, for the methods section.

        Args:
            quoted: makes a text of a user's fit for it.
            sha256: hash of what was found, which stands in for a revision.
        """
        return f"a source of kind {quoted(self.kind)}"


class OnHub(Source):
    """What all sources on the Hugging Face hub have.

    Attributes:
        folder: where the hub has repositories of this role.
    """

    pin: ClassVar[str | None] = "revision"
    taken_from: ClassVar[Literal["hub", "url", "wheel"] | None] = "hub"
    folder: ClassVar[str] = ""

    repo: str
    revision: str | None

    @property
    def known_as(self) -> str:
        """The repository."""
        return self.repo

    @property
    def commit_in_words(self) -> str:
        """Its commit, as far as it is known."""
        return f"commit {self.revision}" if self.revision else "its commit is not in the study file"

    def bibtex(self, clean: Callable[[str], str]) -> list[str]:
        """Return the repository, its account and its commit."""
        commit = f"commit {self.revision}" if self.revision else "commit not known"
        return [
            f"title = {{{{{clean(self.repo)}}}}}",
            f"author = {{{{{clean(self.repo.partition('/')[0])}}}}}",
            f"howpublished = {{\\url{{https://huggingface.co/{self.folder}{self.repo}}}}}",
            f"note = {{{self.role} repository, {commit}. Author is the account; see its card for a paper}}",
        ]

    def in_words(self, quoted: Callable[[str], str], sha256: str = "") -> str:
        """Return the repository and its commit."""
        return f"{quoted(self.repo)}, {self.commit_in_words}"


class AtPath(Source):
    """What all sources have that lie at a path of the user's."""

    fetched: ClassVar[bool] = False

    path: str

    @property
    def shown(self) -> str:
        """The path."""
        return self.path


class InWheel(Source):
    """What all sources have that are one file of a Python package."""

    taken_from: ClassVar[Literal["hub", "url", "wheel"] | None] = "wheel"

    package: str
    version: str

    @property
    def known_as(self) -> str:
        """The package."""
        return self.package

    @property
    def shown(self) -> str:
        """The package and its version."""
        return f"{self.package} {self.version}"

    def bibtex(self, clean: Callable[[str], str]) -> list[str]:
        """Return the package and its version."""
        return [
            f"title = {{{{{clean(self.package)}}}}}",
            f"author = {{{{The authors of {clean(self.package)}}}}}",
            f"note = {{Python package, version {clean(self.version)}}}",
        ]

    def in_words(self, quoted: Callable[[str], str], sha256: str = "") -> str:
        """Return the package and its version."""
        return f"the Python package {quoted(self.package)} {quoted(self.version)}"


class AnswersRead(NamedTuple):
    """A model's answers to the prompts of a split, or a judge's verdicts on these, that rows are made of.

    Without a model it is these prompts themselves.
    """

    model: str | None
    split: str
    judge: str | None = None
    key: str = "model"  # of the source, which names the model
    judge_key: tuple[str, ...] = ("judge",)  # of the source, which names the judge

    @property
    def part(self) -> tuple[str, ...]:
        """Its names, as `config.row_chains` has them."""
        return tuple(filter(None, (self.judge, self.model, self.split)))


class Fate(NamedTuple):
    """What became of one row that a source was to make.

    Attributes:
        state: the name of it.
        words: what a table calls it.
        passed: whether it is a row of the split, if `where` and `sample` leave it.
        category: its category.
    """

    state: str
    words: str
    passed: bool
    category: str | None


class RowSource(Source):
    """Where the rows of a split or of gold come from.

    Attributes:
        later: fields that came when there were copies in caches; without a value they are in no id and no param.
        have_ids: its rows are prompts already, with ids in the column `id`.
        own_columns: what is kept of each of its rows, besides the columns of a prompt; none where the split names all.
        made_of_key: the key that names the split which it is `made_of`.
        made_in: the noun of the file of a split with its rows, where rules of its own make these.
    """

    role: ClassVar[str] = "Data set"
    reading: ClassVar[tuple[str, ...]] = ("skip_lines", "encoding")
    later: ClassVar[tuple[str, ...]] = ("encoding",)
    have_ids: ClassVar[bool] = False
    own_columns: ClassVar[tuple[str, ...]] = ()
    made_of_key: ClassVar[str] = "split"
    made_in: ClassVar[str | None] = None

    @property
    def made_of(self) -> str | None:
        """The split whose prompts its rows are made from, of a source that makes its rows; None for all others."""
        return None

    @property
    def keeps_ids(self) -> bool:
        """Whether its rows have the ids of the prompts that they are `made_of`, and so these prompts' answers."""
        return self.have_ids

    @property
    def asked(self) -> int | None:
        """How often its prompts are asked, of a source that is asked only to make rows of the answers; else None."""
        return None

    def reads(self, split: str) -> list[AnswersRead]:
        """Return the answers and verdicts that its rows are made of, besides the prompts of `made_of`.

        Args:
            split: the split whose source it is.
        """
        return []

    def loads(self) -> list[str]:
        """Return the models that make its rows, besides those whose answers it reads; the study need not have them."""
        return []

    def brings(self, split: str) -> dict[str, dict[str, Any]]:
        """Return the entries of splits that it needs and that no file of the catalogue has, by name.

        Args:
            split: the split whose source it is.
        """
        return {}

    def files(self) -> list[str]:
        """Return the files whose content decides its rows, besides those that these are made of."""
        return []

    def rows_of_each(self, tokens: float) -> float:
        """Return about how many rows it makes of a prompt of so many tokens, of a source that is `made_of` prompts."""
        raise NotImplementedError

    @classmethod
    def with_columns(cls, named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the columns of its rows as a split names them, with those that all rows of this kind have."""
        if not cls.own_columns:
            return dict(named)
        more = named.get("keep") or []
        others = [name for name in more if name not in cls.own_columns] if isinstance(more, list) else None
        of_prompts = ("messages", *(("id",) if cls.have_ids else ()), "parent", "cluster", "category")
        keep = more if others is None else [*cls.own_columns, *others]
        return {name: name for name in of_prompts} | dict(named) | {"keep": keep}

    def param(self) -> dict[str, Any]:
        """Return it as a rule's param: without fields that came later and that it does not use.

        They would otherwise rerun, on the day they come, every job whose source can have them.
        """
        return {key: value for key, value in self.model_dump(mode="json").items() if key not in self.later or value}

    def copy_file(self, cache: str) -> str:
        """Return where its rows lie in the cache, for a source that is fetched."""
        return f"{cache}/rows/{self.copy_id}/{self.cached_name}"

    @property
    def name(self) -> str:
        """What prompts, logs and messages call it; never an absolute path of this machine."""
        return self.known_as

    @property
    def origin(self) -> str:
        """What tells where it comes from apart, whichever file it is there: a repository, a package, a folder."""
        return f"{self.kind} {self.known_as}"

    def in_words(self, quoted: Callable[[str], str], sha256: str = "") -> str:
        """Return where it comes from, for the methods section."""
        return "a file of our own"

    @property
    def cached_name(self) -> str:
        """The name of the file with its rows in the cache, for a source that is fetched."""
        return PurePosixPath(self.read_file).name if self.read_file else ROWS

    @property
    def read_file(self) -> str | None:
        """The file whose ending says how it is read; None where something else does."""
        return next((found for key in ("file", "path", "url") if (found := getattr(self, key, None))), None)

    def mistakes(self, bundled: str) -> Iterator[Mistake]:
        """Yield what is wrong with its file, and with how it is to be read.

        Args:
            bundled: folder of the files that ship with refusal-eval.
        """
        file = self.read_file or ""
        if getattr(self, "skip_lines", 0) and file and not file.endswith(".csv"):
            yield ("skip_lines",), "is for CSV files only; leave it out"
        if getattr(self, "encoding", None) and file.endswith(".parquet"):
            yield ("encoding",), "is for CSV and JSONL files only; leave it out"

    def local_path(self, bundled: str) -> str:
        """Return the file with its rows, for a source that is not fetched.

        Args:
            bundled: folder of the files that ship with refusal-eval.
        """
        raise NotImplementedError

    def own_rows(self, path: str, *read: str) -> list[dict[str, Any]] | None:
        """Return the rows in its file, for a source whose file is no table of them; None for one whose file is.

        Args:
            path: its file, or that of the prompts that it is made of.
            read: the files of what it `reads`, in this order.

        Raises:
            UserError: for what cannot be read.
        """
        return None

    def fates(self, path: str, *read: str) -> list[Fate] | None:
        """Return what became of every row that it was to make; None of a source whose rows are all there.

        Args:
            path: the file of the prompts that it is made of, or `made_in`.
            read: the files of what it `reads`, in this order.

        Raises:
            UserError: for what cannot be read.
        """
        return None

    def columns_here(self, bundled: str) -> set[str] | None:
        """Return the columns of its rows; None where they are not here yet, or take long to read.

        Args:
            bundled: folder of the files that ship with refusal-eval.
        """
        return None

    def fetch(self, target: str | Path, cache: str, log: logging.Logger, locked: Mapping[str, Any] | None) -> None:
        """Write its rows to `target`, whole or not at all (see `data.row_fetching`)."""
        raise NotImplementedError


DataSource = Annotated[RowSource, OfKind(ROW_SOURCES)]


class WeightSource(Source):
    """Where the weights of an engine come from. Each kind is a class in weights/weight_kinds.py.

    Attributes:
        tokenizer_apart: tokenizer and template can be had before the weights.
    """

    role: ClassVar[str] = "Model"
    wants: ClassVar[str] = "weights"
    tokenizer_apart: ClassVar[bool] = False

    def copy_file(self, cache: str) -> str:
        """Return the manifest of its copy."""
        return f"{cache}/weights/{self.copy_id}/weights.json"

    @property
    def model_name(self) -> str:
        """The model's name, as its publisher writes it; empty where nobody knows."""
        return ""

    def identity(self, fingerprint: str | None) -> dict[str, Any]:
        """Return what identifies weights, tokenizer and template; it is in keys, and can never change its form.

        Args:
            fingerprint: that of their folder, for a source that is no copy in the cache.
        """
        raise NotImplementedError

    def described(self) -> str:
        """Return where they come from, as Markdown."""
        raise NotImplementedError

    def fetch(self, part: str, fetching: Any) -> None:
        """Make the copy in the cache, and its manifest.

        Args:
            part: `tokenizer` or `weights`.
            fetching: where to, and with what (`refusal_eval.weights.weight_fetching.Fetching`).
        """
        raise NotImplementedError


AnyWeights = Annotated[WeightSource, OfKind(WEIGHT_SOURCES)]
