"""Everything in the store, how much of it no study asks for, and the removal of that."""

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from refusal_eval.config.study_name_mistakes import shipped_folders
from refusal_eval.core.errors import UserError
from refusal_eval.program.page_lines import fill_lines, table
from refusal_eval.program.study_file import ROOT
from refusal_eval.tools.store import store_studies
from refusal_eval.tools.store.store_studies import Asks, StoreStudy
from refusal_eval.tools.store.store_usage import Usage, by_engine, prune_file, store_indexes, store_usage

COUNTS = ["responses", "distinct", "duplicates", "bytes", "files"]


def command(
    studies: Annotated[
        list[str] | None, typer.Argument(metavar="STUDY.yaml", help="The studies.", show_default="all known")
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="The store.", show_default="the `store_dir` of the studies"),
    ] = None,
    prune: Annotated[bool, typer.Option("--prune", help="Show what no study uses and could be removed.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --prune: remove it.")] = False,
) -> None:
    """Show what the store holds, and how much of it no study uses; with --prune and --yes, remove that part.

    A study uses what is in the request files of its cells. The studies are those with results here: files in config/
    and config/studies/, and others that the results or the store name. Without --yes nothing is changed.
    """
    if yes and not prune:
        raise typer.BadParameter("--yes goes with --prune")
    if not run(studies or [], store, prune, yes):
        raise typer.Exit(1)


def run(named: Sequence[str], folder: str | None, pruning: bool, yes: bool) -> bool:
    """Print what the store holds and, if `pruning`, what can be removed; return whether all went well.

    Raises:
        UserError: if there is no such store, or it is not known what all studies ask for.
    """
    shipped = [file for place in shipped_folders(ROOT) for file in store_studies.study_files(Path(place))]
    studies = [store_studies.read_study(file, ROOT) for file in named or shipped]
    store = folder or common_store(studies)
    waiting: list[StoreStudy] = []
    if not named:
        # What never ran has paid for nothing; of the studies that ship, few are ever run, and some need data first.
        beside = [one.file for one in store_studies.recorded_studies(studies, store) if os.path.isfile(one.file)]
        waiting = [study for study in studies if not study.has_run]
        studies = [study for study in studies if study.has_run]
        studies += [store_studies.read_study(file, ROOT) for file in dict.fromkeys(beside)]
        waiting = [study for study in waiting if study.path not in {one.path for one in studies}]
    if not os.path.isdir(store):
        if folder:
            raise UserError(f"there is no folder {store}")
        say(f"There is no store at {store} yet: nothing was generated.")
        return True
    indexes = store_indexes(Path(store))  # first: see there
    asks = asks_of(studies, store)
    asked: dict[str, set[str]] = defaultdict(set)
    for one in asks.values():
        for engine_id, keys in one.keys.items():
            asked[engine_id] |= keys
    usage = store_usage(indexes, asked)
    unknown: set[str] = set().union(*(one.unknown for one in asks.values()))
    unseen = list(unseen_studies([*studies, *waiting], store))
    said = list(study_lines(studies, asks, waiting))
    gaps = [gap for _, gap in said if gap] + unseen
    if not asks:
        gaps.append("none of the studies has this store; to remove all of it, delete the folder")
    show_store(store, usage, store_studies.described_engines(studies, asks.values()))
    say("\nStudies")
    for sentence in [*(line for line, _ in said), *unseen]:
        say(sentence, "  ")
    say("\nResponses that none of these studies asks for" + (", as far as that is known" if gaps else ""))
    for engine in by_engine(usage).itertuples():
        unasked = f"{engine.unasked:,} of {engine.responses:,}, {engine.unasked_bytes:,} bytes"
        if engine.Index in unknown:
            unasked = "cannot tell: it was asked turn by turn, and its tokenizer is not there"
        say(f"{engine.Index}: {unasked}", "  ")
    if not pruning:
        return True
    if gaps := gaps or out_of_date(asks):
        raise UserError("\n  - ".join(["nothing is removed, for it is not known what all studies ask for:", *gaps]))
    if yes and has_changed(studies, waiting, store, asks):
        raise UserError("a study changed or began to run meanwhile, and nothing is removed; run this command again")
    return prune_store([file for file in usage if file["unasked"] and file["engine"] not in unknown], asked, yes)


def asks_of(studies: Sequence[StoreStudy], store: str) -> dict[str, Asks]:
    """Return what each of these studies asks for that is valid and has this store, by its file."""
    return {
        study.path: store_studies.read_asks(study.config)
        for study in studies
        if study.config and store_studies.same_folder(study.store, store)
    }


def has_changed(
    studies: Sequence[StoreStudy], waiting: Sequence[StoreStudy], store: str, asks: Mapping[str, Asks]
) -> bool:
    """Tell whether studies were changed or added since they were read, by asking again for everything known."""
    seen = [*studies, *waiting]
    again = [store_studies.read_study(study.path, ROOT) for study in seen]
    return again != seen or asks_of(studies, store) != asks or any(unseen_studies(seen, store))


def common_store(studies: Sequence[StoreStudy]) -> str:
    """Return the store of the studies.

    Raises:
        UserError: if they have none, or different ones.
    """
    stores = {os.path.realpath(study.store): study.store for study in studies if study.store}
    if len(stores) == 1:
        return next(iter(stores.values()))
    if stores:
        raise UserError(f"the studies have different stores ({', '.join(stores.values())}); choose one with --store")
    mistakes = "".join(f"\n{study.mistake}" for study in studies)
    raise UserError(f"no valid study file says where the store is; name it with --store{mistakes}")


def unseen_studies(studies: Sequence[StoreStudy], store: str) -> Iterator[str]:
    """Yield a sentence about each study that has results here and is not among those looked at."""
    known = {os.path.realpath(study.path) for study in studies}
    for folder, file, note in store_studies.recorded_studies(studies, store):
        what, means = "a study that no study.json tells", f"name it on the command line or delete {folder}"
        if note and not os.path.exists(folder):
            what = f"a study, as {note} says, and cannot be seen from here"
            means = "start this where it can be seen, or delete that file if these results were moved or are gone"
        elif not os.access(folder, os.R_OK | os.X_OK):
            what, means = "a study and cannot be read", f"delete {note or folder} if it no longer uses this store"
        elif os.path.realpath(file) in known:  # with other results, as seen from here
            what = f"{file}, which has its results elsewhere when it is read from here"
            means = f"start this where that study is run, or delete {note} if it does not use this store"
        elif os.path.isfile(file):
            what = f"{os.path.relpath(file)}, which was not looked at"
        elif file:
            what, means = f"{file}, which is gone", f"delete {folder} if it is not needed"
        yield f"{folder} holds results of {what}: what they ask for is not known; {means}"


def show_store(store: str, usage: Sequence[Usage], names: Mapping[str, str]) -> None:
    """Print a row per engine, and what the engine is below it."""
    files = [Path(folder, name) for folder, _, names_ in os.walk(store) for name in names_]
    say(f"Store: {store}, {sum(path.lstat().st_size for path in files):,} bytes on disk")
    for pattern in ("*", "*/*"):
        for path in sorted(Path(store).glob(pattern)):
            if path.is_symlink():
                say(f"{path} is a link: it is not followed", "  ")
    engines = by_engine(usage)
    counts = engines.assign(duplicates=engines["responses"] - engines["distinct"])[COUNTS]
    if len(counts) > 1:
        counts.loc["all"] = counts.sum()
    times = engines[["first", "last"]].apply(lambda column: column.str[:16].str.replace("T", " "))
    shown = counts.map("{:,}".format).join(times.set_axis(["first (UTC)", "last (UTC)"], axis=1)).fillna("")
    head, *rows = table("engine", shown, "")
    print(f"\n{head}")
    for engine_id, row in zip(shown.index, rows, strict=True):
        print(row)
        if engine_id in engines.index:
            say(names.get(engine_id, "of no study that was looked at"), "  ")
    for folder in sorted(Path(store).glob("*")):
        sizes = [path.lstat().st_size for path in folder.rglob("*.safetensors")]
        if sizes:
            say(f"{folder.name}: {len(sizes):,} files, {sum(sizes):,} bytes, which `--prune` leaves")


def study_lines(
    studies: Sequence[StoreStudy], asks: Mapping[str, Asks], waiting: Sequence[StoreStudy]
) -> Iterator[tuple[str, str]]:
    """Yield what is said of each study, and which of its requests are not known and what to do; empty if all are."""
    for study in [*studies, *waiting]:
        what, gap = f"skipped, its store is another one ({study.store})", ""
        if study in waiting:
            what = "has no results here and is not counted; name it on the command line if it is to be"
        elif study.config is None:
            what, gap = f"not valid, what it asks for is not known. {study.mistake}", f"{study.path} is not valid"
        elif one := asks.get(study.path):
            requests = sum(map(len, one.keys.values()))
            what = f"{one.rendered:,} of {one.cells:,} cells rendered, {requests:,} different requests"
            if one.rendered < one.cells:
                what += "; what the others ask for is not known"
                todo = f"run `{snakemake(study.path)}`, or name all other studies on the command line"
                gap = f"{study.path}: only {one.rendered:,} of {one.cells:,} cells are rendered; {todo}"
        yield f"{study.path}: {what}", gap


def out_of_date(asks: Mapping[str, Asks]) -> list[str]:
    """Return the studies whose request files Snakemake would write again, and what to do. It takes seconds for each."""
    counts = {path: store_studies.planned_rendering(path, ROOT) for path in asks}
    why = "request files would be written again, for what they are made from has changed"
    return [f"{path}: {count:,} {why}; run `{snakemake(path)}` first" for path, count in counts.items() if count]


def prune_store(usage: Sequence[Usage], asked: Mapping[str, set[str]], yes: bool) -> bool:
    """Print what can be removed of these files, and remove it if `yes`; return whether all went well."""
    print("\nTo be removed")
    doomed = [file for file in usage if not file["written"]]
    for file in usage:
        if file["written"]:
            say(f"{file['index'].path} is left alone: {file['written']}", "  ")
    for engine in by_engine(doomed).itertuples():
        say(
            f"{engine.Index}: {engine.unasked:,} responses in {engine.files:,} files, {engine.unasked_bytes:,} bytes",
            "  ",
        )
    if not doomed:
        print("  nothing")
    if not yes:
        if doomed:
            say(
                "Nothing was removed yet: --yes does it. Not known is whether studies that are not named above ask "
                "for it:\nthose of other people, and those in other copies of this project."
            )
        return True
    removed, well = 0, True
    for file in doomed:
        try:
            removed += prune_file(file["index"], asked.get(file["engine"], set()))
        except UserError as error:
            say(str(error), "  ")
            well = False
    print(f"Removed {removed:,} responses.")
    return well


def snakemake(study_file: str) -> str:
    return f"snakemake --cores all --configfile {study_file}"


def say(text: str, indent: str = "") -> None:
    """Print text in lines that are not too long, where its words allow that."""
    for line in text.splitlines():
        start = indent + line[: len(line) - len(line.lstrip())]
        print("\n".join(fill_lines([line.strip()], start)))
