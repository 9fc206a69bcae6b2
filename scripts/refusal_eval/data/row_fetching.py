"""Rows of a data set on the hub, or of files at an address, fetched once at a locked revision."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import canonical_json, sha256_of_file, size_text, written_whole
from refusal_eval.core.hints import nearest
from refusal_eval.data import hub, network
from refusal_eval.data.addresses import read_addresses
from refusal_eval.data.hub_card import check_card, check_listed
from refusal_eval.data.rows import plain_rows, plain_value, read_rows, valid_text
from refusal_eval.study.row_sources import addresses_of, part_columns

if TYPE_CHECKING:
    import logging

    from refusal_eval.data.row_kinds import HubRows, UrlRows


def fetch_from_hub(source: HubRows, place: hub.Repository, target: str | Path) -> None:
    """Write a split of a repository as JSONL (numbered classes by their names), or one file of it as it is.

    Raises:
        UserError: with what is wrong and what to do.
    """
    _make_folder(place.folder, Path(place.cache, "rows"))
    if source.file:
        _take_file(place, source.file, source.sha256, target)
        return
    files = hub.list_files(place)
    # Offline, the copy in the cache decides which files exist.
    listed = files if files is not None else hub.names_below(place.snapshot)
    if (script := f"{place.repo.split('/')[-1]}.py") in listed:
        message = f"its rows are produced by a script, {script}, which we do not run, so they may differ from its files"
        raise UserError(f"{place}: {message}; name one `file` of the repository instead of `split`")
    folder = hub.snapshot(place, None, files)
    with written_whole(target) as handle:
        count = 0
        for row in _hub_rows(folder, listed, source, place):
            count += 1
            handle.write(canonical_json(row) + "\n")
        if not count:
            raise UserError(f"{place}: split `{source.split}` holds no rows")
    place.log.info("%s: %d rows of split `%s`", place, count, source.split)


def take_addresses(source: UrlRows, target: Path, log: logging.Logger, size: int | None = None) -> None:
    """Write the file at an address unchanged; for several addresses write rows, each with its part of the address.

    Args:
        source: names the addresses.
        target: the file to write.
        log: takes what is done.
        size: total bytes by the lock file; None if unknown.

    Raises:
        UserError: with what is wrong and what to do.
    """
    urls = addresses_of(source.url)
    first, *_ = urls.values()
    # Its usual meaning, that this machine has no internet, holds here too.
    if hub.offline():
        raise UserError(f"{first} is not in the cache, and HF_HUB_OFFLINE is set: {hub.FETCH_ONLINE}")
    target.parent.mkdir(parents=True, exist_ok=True)
    # In the cache a file is complete: only what was checked may come to its place.
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".parts-") as scratch:
        files = {part: Path(scratch, f"{i}{Path(url).suffix}") for i, (part, url) in enumerate(urls.items())}
        shown = ", ".join(urls.values())
        found, count = read_addresses(list(urls.values()), log, list(files.values()), size)
        if found != source.sha256:
            what = "is not the file that was locked: its"
            if len(urls) > 1:
                what = "are not the files that were locked: their"
            raise UserError(f"{shown} {what} SHA-256 is {found}, expected is {source.sha256}")
        log.info("%s: %s, SHA-256 as expected", shown, size_text(count))
        if len(urls) == 1:
            (file,) = files.values()
            os.replace(file, target)
            return
        with written_whole(target) as handle:
            for part, file in files.items():
                for number, row in enumerate(read_rows(file, name=urls[part]), 1):
                    line = canonical_json(plain_value({**row, **part_columns(part)}))
                    handle.write(valid_text(line, f"{urls[part]}, row {number}") + "\n")


def _make_folder(copies: Path, rows: Path) -> None:
    """Create the folder of a repository's copies with the mode of the rows' folder: both hold the same prompts."""
    copies.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):  # its owner may have opened it on purpose
        copies.mkdir(stat.S_IMODE(rows.stat().st_mode) if rows.is_dir() else 0o777)


def _take_file(place: hub.Repository, file: str, sha256: str | None, target: str | Path) -> None:
    """Write one file of a repository to `target`; nothing else of the repository is fetched."""
    files = hub.list_files(place)
    if files is not None and file not in files and place.locked is None:
        alike = [name for name in files if Path(name).suffix == Path(file).suffix]
        raise UserError(f"{place}: has no file `{file}`{nearest(file, alike)}")
    copy = hub.snapshot(place, [file], files) / file
    if not copy.is_file():  # offline, the cache may hold other files of this commit only
        raise UserError(
            f"{place}: `{file}` is not in {Path(place.cache, 'hub')}, and HF_HUB_OFFLINE is set: {hub.FETCH_ONLINE}"
        )
    found = sha256_of_file(copy)
    if sha256 is not None and found != sha256:
        raise UserError(
            f"{place}: {file} is not the file that was locked: its SHA-256 is {found}, expected is {sha256}"
        )
    with open(copy, "rb") as handle, written_whole(target, "wb") as out:
        shutil.copyfileobj(handle, out, 1 << 20)
    place.log.info("%s: took %s, SHA-256 %s%s", place, file, found, " as expected" if sha256 else "")


def _hub_rows(
    folder: Path, listed: Collection[str], source: HubRows, place: hub.Repository
) -> Iterator[dict[str, Any]]:
    # Loading a local folder needs no network; these keep the library from asking all the same.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("HF_UPDATE_DOWNLOAD_COUNTS", "0")
    import datasets

    datasets.disable_progress_bars()
    with _errors_of(place):
        check_card(folder, str(place))
        config, split = _config_and_split(folder, source, place)
    # The library's own copy (Arrow) is of no use once the rows are written.
    with tempfile.TemporaryDirectory(dir=place.cache, prefix=".datasets-") as scratch:
        with _errors_of(place):
            builder = datasets.load_dataset_builder(str(folder), name=config, cache_dir=scratch)
            files = builder.config.data_files or {}
            check_listed((file for some in files.values() for file in some), folder, listed, str(place))
            # The files were checked; sizes in a data set's card are often out of date.
            builder.download_and_prepare(verification_mode="no_checks")
            data = builder.as_dataset(split=split)
        # Arrow's own values: pictures and sound stay undecoded bytes, which become null.
        for batch in data.with_format("arrow").iter(batch_size=1000):
            with _errors_of(place):
                rows = [_with_names(row, data.features) for row in plain_rows(batch)]
            yield from rows


def _with_names(value: Any, feature: Any) -> Any:
    """Return a value with the numbers of its classes replaced by names, nested ones included."""
    import datasets

    if isinstance(feature, datasets.ClassLabel) and isinstance(value, int):
        return feature.names[value] if 0 <= value < len(feature.names) else value
    if isinstance(feature, (datasets.List, datasets.LargeList)) and isinstance(value, list):
        return [_with_names(item, feature.feature) for item in value]
    if isinstance(feature, dict) and isinstance(value, dict):
        return {key: _with_names(item, feature.get(key)) for key, item in value.items()}
    return value


@contextlib.contextmanager
def _errors_of(place: hub.Repository) -> Iterator[None]:
    """Tell whatever the library says about a data set's files as a mistake in them; it knows dozens of formats."""
    try:
        yield
    except (UserError, MemoryError):
        raise
    except Exception as error:
        raise UserError(f"{place}: cannot be read: {network.first_line(error)}") from error


def _config_and_split(folder: Path, source: HubRows, place: hub.Repository) -> tuple[str | None, str]:
    import datasets

    config, split = source.config, str(source.split)
    configs = datasets.get_dataset_config_names(str(folder))
    if config is not None and config not in configs:
        raise UserError(f"{place}: there is no configuration `{config}`{nearest(config, configs)}")
    if config is None and len(configs) > 1:
        config = datasets.get_dataset_default_config_name(str(folder))
        if config is None:
            raise UserError(f"{place}: name one of its configurations in `config`{nearest('', configs)}")
    splits = datasets.get_dataset_split_names(str(folder), config_name=config)
    # `test[:100]` and `train+test` are the library's own language: it checks them itself.
    if split not in splits and not set(split) & set("[+"):
        raise UserError(f"{place}: there is no split `{split}`{nearest(split, splits)}")
    return config, split
