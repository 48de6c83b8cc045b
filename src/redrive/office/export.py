"""Letters for other programs: JSON lines with everything of R8, or CSV with one row a letter.

Rows are made page by page, so that memory does not grow with the letters. Payloads are masked unless whoever
asks may see them. In CSV no cell begins like a formula: a spreadsheet would run what a stranger wrote (S23).
An export is for reading; what is to come back is an archive.
"""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO

from redrive.core.letters import DeadLetter
from redrive.core.redaction import printable
from redrive.office.archive.files import close_on_disk, create_private, partial_of, saying, sync_folder
from redrive.office.masking import Mask
from redrive.office.wire import letter_document

COLUMNS = (
    "jobId",
    "outboxId",
    "companyId",
    "queue",
    "reason",
    "failedAttempts",
    "lastFailureReason",
    "lastFailureCode",
    "lastFailureTimestamp",
    "enqueuedAt",
    "movedToDLQAt",
    "ttl",
    "generation",
    "fingerprint",
    "redriven",
    "originalData",
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_ADVICE = "choose another file, or a folder that this process may write to"

Progress = Callable[[int], None]
Pages = AsyncIterable[Sequence[DeadLetter]]


class Format(StrEnum):
    """How letters are written."""

    JSON = "jsonl"
    CSV = "csv"


class Export:
    """Turns letters into bytes. Without a mask, payloads are shown: the caller has checked who asks."""

    def __init__(self, format: Format, mask: Mask | None) -> None:  # noqa: A002 - as users know it
        self._format = format
        self._mask = mask

    def head(self) -> bytes:
        """What stands before the first letter."""
        return _csv([COLUMNS]) if self._format is Format.CSV else b""

    def rows(self, letters: Iterable[DeadLetter]) -> bytes:
        """The letters, one a line."""
        documents = [self._document(letter) for letter in letters]
        if self._format is Format.CSV:
            return _csv(map(_cells, documents))
        lines = (json.dumps(document, separators=(",", ":")) + "\n" for document in documents)
        return "".join(lines).encode("ascii")

    def _document(self, letter: DeadLetter) -> dict[str, Any]:
        document = letter_document(letter)
        return document if self._mask is None else self._mask.document(document)


async def export(pages: Pages, sink: BinaryIO, form: Export, progress: Progress = lambda _: None) -> int:
    """Write letters to an open file or to standard output; how many there were."""
    await asyncio.to_thread(sink.write, form.head())
    count = 0
    async for letters in pages:
        await asyncio.to_thread(lambda page: sink.write(form.rows(page)), letters)
        count += len(letters)
        progress(count)
    await asyncio.to_thread(sink.flush)
    return count


async def export_to_file(pages: Pages, path: Path, form: Export, progress: Progress = lambda _: None) -> int:
    """Write letters to a new file that only its owner may read; it has its name once it is whole."""
    partial = partial_of(path)
    with saying(f"cannot write {path}", _ADVICE):
        file = _create(path, partial)
        try:
            count = await export(pages, file, form, progress)
            await asyncio.to_thread(close_on_disk, file)
            partial.rename(path)
        except BaseException:
            with suppress(OSError):
                file.close()
            partial.unlink(missing_ok=True)
            raise
        await asyncio.to_thread(sync_folder, path.parent)
    return count


def _create(path: Path, partial: Path) -> BinaryIO:
    if path.exists():
        raise FileExistsError(0, "there is a file already")
    return create_private(partial)


def _csv(rows: Iterable[Iterable[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue().encode("utf-8")


def _cells(document: Mapping[str, Any]) -> list[object]:
    row = {**document, "redriven": len(document["redrives"])}
    row["originalData"] = json.dumps(document["originalData"])
    return [_cell(row[column]) for column in COLUMNS]


def _cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
