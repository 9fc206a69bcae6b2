"""Members of a zip archive that anybody may have packed, each in bounded memory.

Python's `zipfile` reads the list of members, but not those that are packed by zstd (method 93).
"""

import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import pyarrow

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import inner_name, size_text
from refusal_eval.features.recorded_logs.bounded_files import refuse_large

ZSTD = 93
MOST_MEMBERS = 500_000
MOST_MEMBER = 64_000_000  # bytes of one member, unpacked
MOST_UNPACKED = 2_000_000_000
LOCAL_HEADER, NAME_SIZES = 30, slice(26, 30)  # of the local header in front of a member's bytes


class Archive:
    """A zip archive whose members are read one at a time.

    Raises:
        UserError: if it is no whole archive, names a place outside of it, or would unpack to more than is read.
    """

    def __init__(self, path: Path) -> None:
        refuse_large(path)
        self.path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, struct.error, ValueError, OverflowError) as error:
            raise UserError(f"{path} is no whole zip archive ({error}); was it cut off?") from error
        members = self._zip.infolist()
        if len(members) > MOST_MEMBERS:
            raise UserError(f"{path} has {len(members):,} members; at most {MOST_MEMBERS:,} are read")
        for member in members:
            try:
                inner_name(member.filename)
            except ValueError as error:
                raise UserError(f"{path}, member {member.filename!r:.200}: leads out of the archive") from error
            if member.file_size > MOST_MEMBER:
                raise UserError(
                    f"{self._place(member.filename)}: unpacks to {size_text(member.file_size)}, more than the "
                    f"{size_text(MOST_MEMBER)} that are read"
                )
        if (whole := sum(member.file_size for member in members)) > MOST_UNPACKED:
            raise UserError(f"{path} unpacks to {size_text(whole)}; at most {size_text(MOST_UNPACKED)} are read")
        if twice := len(members) - len({member.filename for member in members}):
            raise UserError(f"{path} has {twice} members under a name that another one has")
        self._handle: IO[bytes] = open(path, "rb")  # noqa: SIM115

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self._handle.close()
        self._zip.close()

    def names(self) -> Iterator[str]:
        """Yield the names of its members."""
        yield from self._zip.namelist()

    def text(self, name: str) -> str:
        """Return the text of a member.

        Raises:
            UserError: if it is damaged, or not what the list of members says.
        """
        member, place = self._zip.getinfo(name), self._place(name)
        try:
            data = self._zstd(member) if member.compress_type == ZSTD else self._zip.read(member)
            if len(data) != member.file_size or zlib.crc32(data) != member.CRC:
                raise ValueError("its length or its checksum is another than the archive says")
            return data.decode("utf-8")
        except (ValueError, OSError, EOFError, NotImplementedError, RuntimeError) as error:
            raise UserError(f"{place}: cannot be read ({str(error).splitlines()[0]})") from error
        except (zipfile.BadZipFile, zlib.error, struct.error, pyarrow.ArrowException) as error:
            raise UserError(f"{place}: is damaged ({str(error).splitlines()[0]})") from error

    def _zstd(self, member: zipfile.ZipInfo) -> bytes:
        """Unpack a member into as many bytes as the archive says it has, and no more."""
        self._handle.seek(member.header_offset)
        header = self._handle.read(LOCAL_HEADER)
        self._handle.seek(sum(struct.unpack("<HH", header[NAME_SIZES])), 1)
        packed = self._handle.read(member.compress_size)
        unpacked = pyarrow.decompress(packed, decompressed_size=member.file_size, codec="zstd", asbytes=True)
        return bytes(unpacked)

    def _place(self, name: str) -> str:
        return f"{self.path}, member {name[:200]}"
