"""Operations on files of this machine: an export grows slice by slice, a restore buries page by page, and an
archive moves some thousand letters at a time into files that are whole before the letters go.

Only a process on the machine where the file lies can go on with them. An export has its name once it is
whole; until then its length is in the operation's record, and whatever a crash left beyond that is cut off: a
file that is shorter was changed by another process, and the export fails. A restore checks the whole archive
before the first letter moves, whoever goes on with it, and burying a page again changes nothing. Known
weakness: after a crash, the restored letters of one page may count as skipped, and letters may stand in two
archives, or in one that the operation does not name: the audit has all of them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redrive.core.letters import DeadLetter, as_letter
from redrive.core.lifecycle import State
from redrive.machine.private import create_file
from redrive.office.archive.files import folder_problem, partial_of, saying, sync_folder
from redrive.office.archive.reader import check_archive
from redrive.office.archive.restore import Restored, restore
from redrive.office.export import Export, Format
from redrive.office.masking import UNMASKED
from redrive.office.operations.operation import CHUNK, Frozen, Operation, OperationError, OperationKind, Order
from redrive.office.operations.records import Letter, by_queue
from redrive.office.ports import LetterStore
from redrive.office.retention.departure import FILE_LETTERS, Departure

if TYPE_CHECKING:
    from redrive.office.office import Office

_STEP_BYTES = 64 * 1024 * 1024
_ADVICE = "choose another file, or a folder that this process may write to"


@dataclass(slots=True)
class _Restoring:
    """A restore under way in this process."""

    pages: AsyncIterator[Restored]
    handled: int = 0
    restored: int = 0


class Filing:
    """The file steps of one process."""

    def __init__(self, office: Office) -> None:
        self._store = office.store
        self._mask = office.mask
        self._ttl_ms = office.ttl_ms
        self._restores: dict[str, _Restoring] = {}

    async def check(self, operation: Operation) -> Frozen:
        """The list of a restore: what the archive holds, once the whole file was read."""
        archive = await asyncio.to_thread(check_archive, path_of(operation))
        return Frozen(total=archive.count, hash=archive.sha256)

    async def restore(self, operation: Operation) -> dict[str, Any]:
        """Bury one page of an archive; what then changes in the operation."""
        path = path_of(operation)
        under_way = self._restores.setdefault(
            operation.id, _Restoring(restore(self._store, path, operation.frozen.hash))
        )
        while under_way.handled <= operation.position:
            page = await anext(under_way.pages, None)
            if page is None:
                raise OperationError(f"{path} ends before its {operation.frozen.total:,} letters")
            under_way.handled += len(page.ids) + page.skipped
            under_way.restored += len(page.ids)
        restored, under_way.restored = under_way.restored, 0
        return {"position": under_way.handled, "counted": operation.counted + restored}

    async def export(self, operation: Operation, letters: Sequence[Letter]) -> dict[str, Any]:
        """Write one slice of letters; what then changes in the operation."""
        found = [one async for page in _dead(self._store, letters) for one in page]
        written = await asyncio.to_thread(self._write, operation, found)
        return {"written": written, "counted": operation.counted + len(found)}

    @asynccontextmanager
    async def archiving(self, operation: Operation) -> AsyncIterator[Archives]:
        """Archives to add letters to; on leaving they are finished, then their letters are removed."""
        archives = Archives(self._store, operation)
        try:
            yield archives
            await archives.end()
        finally:
            archives.abandon()

    async def close(self, operation: Operation, *, whole: bool) -> None:
        """Give a whole export its name, or leave no trace of one that is not."""
        self._restores.pop(operation.id, None)
        if operation.order.writes:
            await asyncio.to_thread(_name if whole else _drop, operation)

    def _write(self, operation: Operation, letters: Sequence[DeadLetter]) -> int:
        partial, order = _partial(operation), operation.order
        form = Export(Format(order.form), UNMASKED if order.reveal else self._mask, self._ttl_ms)
        with saying(f"cannot write {path_of(operation)}", _ADVICE):
            if not operation.written:
                partial.unlink(missing_ok=True)
                create_file(partial).close()
            _check_length(operation)
            with partial.open("r+b") as file:
                file.truncate(operation.written)
                file.seek(operation.written)
                file.write(form.rows(letters) if operation.written else form.head() + form.rows(letters))
                file.flush()
                os.fsync(file.fileno())
                return file.tell()


class Archives:
    """The archives of one step, one a queue."""

    def __init__(self, store: LetterStore, operation: Operation) -> None:
        self._store = store
        self._operation = operation
        self._departures: dict[str, Departure] = {}
        self._bytes = self._letters = 0

    @property
    def full(self) -> bool:
        """Whether that is enough for one step: another process may take over between two."""
        return self._letters + CHUNK > FILE_LETTERS or self._bytes >= _STEP_BYTES

    @property
    def files(self) -> list[str]:
        """Those that are finished."""
        return [str(path) for one in self._departures.values() for path in one.paths]

    async def add(self, letters: Sequence[Letter]) -> None:
        """Write those that are still dead by the death that is meant."""
        self._letters += len(letters)
        async for page in _dead(self._store, letters):
            self._bytes += sum(len(one.message.body) for one in page)
            await self._departure(page[0].message.queue).add(page)

    async def end(self) -> None:
        for departure in self._departures.values():
            await departure.end()

    def abandon(self) -> None:
        for departure in self._departures.values():
            departure.abandon()

    def _departure(self, queue: str) -> Departure:
        if queue not in self._departures:
            operation = self._operation
            self._departures[queue] = Departure(
                self._store, queue, path_of(operation), actor=operation.by, operation=operation.id
            )
        return self._departures[queue]


async def _dead(store: LetterStore, letters: Sequence[Letter]) -> AsyncIterator[list[DeadLetter]]:
    """The letters that are dead by the death that is meant, queue by queue."""
    for queue, keys in by_queue(letters).items():
        generations = {key.id: key.generation for key in keys}
        accounts = await store.accounts(queue, list(generations))
        found = [
            as_letter(one)
            for one in accounts
            if one.state is State.DEAD and one.progress.generation == generations[one.message.id]
        ]
        if found:
            yield found


def check_file(order: Order) -> None:
    """OperationError when an order's file cannot be meant."""
    if (order.file is not None) != order.uses_file:
        raise OperationError(f"{order.kind} {'needs' if order.uses_file else 'takes no'} file")
    if order.file is None:
        return
    path = Path(order.file)
    if not path.is_absolute():
        raise OperationError(f"{path} is not absolute: another process may carry the operation on")
    if order.kind is OperationKind.ARCHIVE and (problem := folder_problem(path)):
        raise OperationError(problem)
    if order.writes:
        _check_free(path)
    if order.writes and not path.parent.is_dir():
        raise OperationError(f"{path.parent} is not a folder: make it, or choose another")


def _check_free(path: Path) -> None:
    if path.exists():
        raise OperationError(f"{path} is there already: choose another name")


def path_of(operation: Operation) -> Path:
    """The operation's file."""
    if operation.order.file is None:
        raise OperationError(f"operation {operation.id} has no file")
    return Path(operation.order.file)


def _partial(operation: Operation) -> Path:
    """The file until it is whole, of this operation alone."""
    path = path_of(operation)
    return partial_of(path.with_name(f"{path.name}.{operation.id}"))


def _check_length(operation: Operation) -> None:
    if _partial(operation).stat().st_size < operation.written:
        raise OperationError(f"{_partial(operation)} was changed by another process: start the export again")


def _name(operation: Operation) -> None:
    """Give the file its name; once it has it, there is nothing to do."""
    path, partial = path_of(operation), _partial(operation)
    with saying(f"cannot write {path}", _ADVICE):
        if not operation.written and not partial.exists() and not path.exists():
            create_file(partial).close()
        if partial.exists():
            _check_length(operation)
            _check_free(path)
            os.truncate(partial, operation.written)
            partial.rename(path)
        elif not path.exists():
            raise OperationError(f"{partial} is gone: start the export again")
        sync_folder(path.parent)


def _drop(operation: Operation) -> None:
    _partial(operation).unlink(missing_ok=True)
