"""Reading an archive: the whole file is checked before the first letter comes out, in constant memory.

A file that was cut, changed, or written by a later version is refused with what is wrong and in which line;
so nothing of it has moved. `read_archive` and `check_archive` block: run them in a thread.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import zlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from redrive.core.errors import InvalidMessage
from redrive.core.letters import DeadLetter
from redrive.core.message import check_queue, check_tenant
from redrive.core.ports import APPEND_BYTES, PAGE
from redrive.office.archive.files import saying
from redrive.office.archive.lines import (
    FORMAT,
    READABLE,
    SHARED_LINES,
    VERSION,
    AnyLine,
    ArchiveError,
    Header,
    Letter,
    Shared,
    Trailer,
    decode,
    to_letter,
    to_shared,
)

LINE_BYTES = 96 * 1024 * 1024
_ADVICE = "name an archive that this process may read"
_UNMOVED = "nothing was moved"


@dataclass(frozen=True, slots=True)
class Archive:
    """A finished archive: where it is, how many letters it holds, and the hash in its trailer."""

    path: Path
    count: int
    sha256: str


def check_archive(path: Path) -> Archive:
    """Read the whole archive; ArchiveError when anything about it is not as it should be."""
    with _opened(path) as lines:
        return _check(path, lines)


def read_archive(path: Path, sha256: str | None = None) -> Generator[DeadLetter, None, None]:
    """The letters of an archive, after the whole file was checked, and that it has the hash asked for."""
    with _opened(path) as lines:
        found = _check(path, lines).sha256
        if sha256 not in (None, found):
            raise ArchiveError(f"{path} is another archive than the one asked for; {_UNMOVED} from it")
        lines.seek(0)
        families = _Families()
        for number, text in _numbered(path, lines):
            line = _decode(path, number, text)
            if isinstance(line, Shared):
                families.remember(line)
            elif isinstance(line, Letter):
                yield families.letter(line)


class _Families:
    """What the letters of an archive share, as far as the format says that it is still needed."""

    def __init__(self) -> None:
        self._bodies: OrderedDict[str, bytes] = OrderedDict()

    def remember(self, line: Shared) -> None:
        """What is shared by letters that follow."""
        self._bodies[line.job_id] = to_shared(line)
        if len(self._bodies) > SHARED_LINES:
            self._bodies.popitem(last=False)

    def letter(self, line: Letter) -> DeadLetter:
        """A letter with what it shares; None where the archive does not have it."""
        return to_letter(line, None if line.parent is None else self._bodies.get(line.parent))


async def archive_pages(path: Path, sha256: str | None = None) -> AsyncIterator[list[DeadLetter]]:
    """The letters of an archive in pages fit for one `bury`, after the whole file was checked."""
    letters = read_archive(path, sha256)
    try:
        while page := await asyncio.to_thread(_page, letters):
            yield page
    finally:
        letters.close()


def _page(letters: Iterator[DeadLetter]) -> list[DeadLetter]:
    page: list[DeadLetter] = []
    parents: set[str | None] = {None}
    size = 0
    for letter in letters:
        page.append(letter)
        size += len(letter.message.body)
        if letter.message.parent not in parents:
            parents.add(letter.message.parent)
            size += len(letter.shared or b"")
        if len(page) == PAGE or size >= APPEND_BYTES:
            break
    return page


def _check(path: Path, lines: gzip.GzipFile) -> Archive:
    sha256 = hashlib.sha256()
    count = 0
    trailer: Trailer | None = None
    for number, text in _numbered(path, lines):
        if trailer is not None:
            raise _refused(path, number, "there is more after the trailer")
        line = _decode(path, number, text)
        if (number == 1) is not isinstance(line, Header):
            raise _refused(path, number, "the header is the first line, and only there")
        if isinstance(line, Trailer):
            trailer = line
            continue
        sha256.update(text)
        count += isinstance(line, Letter)
    if trailer is None:
        raise ArchiveError(f"{path} ends without its trailer: it was cut; {_UNMOVED}")
    if trailer.count != count:
        raise ArchiveError(f"{path} holds {count} letters, its trailer says {trailer.count}; {_UNMOVED}")
    if trailer.sha256 != sha256.hexdigest():
        raise ArchiveError(f"{path} was changed: its lines do not have the hash of its trailer; {_UNMOVED}")
    return Archive(path, count, trailer.sha256)


def _decode(path: Path, number: int, text: bytes) -> AnyLine:
    """The line, checked as far as it can be by itself."""
    try:
        line = decode(text)
        if isinstance(line, Letter):
            letter = to_letter(line)
            check_queue(letter.message.queue)
            check_tenant(letter.message.tenant)
        elif isinstance(line, Shared):
            to_shared(line)
    except (ArchiveError, InvalidMessage) as error:
        raise _refused(path, number, str(error)) from error
    if isinstance(line, Header) and (line.format != FORMAT or line.version not in READABLE):
        raise _refused(
            path,
            number,
            f"its format is {line.format!r} {line.version}, this program reads {FORMAT!r} {VERSION}: "
            "use the version that wrote it, or a later one",
        )
    return line


def _numbered(path: Path, lines: gzip.GzipFile) -> Iterator[tuple[int, bytes]]:
    """Each line with its number, whatever the file holds: a line has a longest length."""
    number = 0
    while True:
        number += 1
        try:
            text = lines.readline(LINE_BYTES)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            if number == 1 and isinstance(error, gzip.BadGzipFile):
                raise ArchiveError(f"{path} is not an archive of dead letters; {_UNMOVED}") from None
            raise _refused(path, number, f"it is cut or damaged ({error})") from None
        if not text:
            return
        if not text.endswith(b"\n"):
            raise _refused(path, number, "the line has no end")
        yield number, text


@contextmanager
def _opened(path: Path) -> Iterator[gzip.GzipFile]:
    with saying(f"cannot read {path}", _ADVICE), gzip.open(path, "rb") as lines:
        yield lines


def _refused(path: Path, number: int, problem: str) -> ArchiveError:
    return ArchiveError(f"{path}, line {number}: {problem}; {_UNMOVED}")
