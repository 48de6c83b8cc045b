"""Dead letters from Python: the verbs of `redrive dlq`, on the same office, with the same audit.

Letters are chosen by a filter, a queue, a tenant, an age or ids. What changes them never takes a forgotten
argument for "all". A re-drive or a discard is an operation: it is written down first, carried out by any
running worker, and by `wait` in this process.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from redrive.core.letters import DeadLetter
from redrive.core.values import as_span

if TYPE_CHECKING:
    from redrive.office.audit import Actor
    from redrive.office.groups import Group
    from redrive.office.office import ActingOffice, Office
    from redrive.office.operations import Operation, Preview, Selection, Snapshot

_PAGE = 100

Span = timedelta | float


class DeadLetters:
    """The dead letters of an app; `tenant` and the others narrow what the filter means."""

    def __init__(self, office: Callable[[], Awaitable[Office]], actor: Actor) -> None:
        self._office = office
        self._actor = actor

    async def find(
        self,
        filter: str = "",  # noqa: A002 - the word that every face has for it
        *,
        queue: str | None = None,
        tenant: str | None = None,
        older_than: Span | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[DeadLetter]:
        """The letters meant, oldest first, as they are found; a number as `older_than` is seconds."""
        letters, text = (await self._acting()).letters, _narrowed(filter, older_than)
        cursor, left = None, limit
        while left is None or left > 0:
            size = _PAGE if left is None else min(_PAGE, left)
            page = await letters.find(text, queue=queue, tenant=tenant, after=cursor, limit=size, whole=True)
            for letter in page.found:
                yield letter
            left = None if left is None else left - len(page.found)
            cursor = page.document.cursor
            if cursor is None:
                return

    async def count(
        self,
        filter: str = "",  # noqa: A002
        *,
        queue: str | None = None,
        tenant: str | None = None,
        older_than: Span | None = None,
    ) -> int:
        """How many letters are meant."""
        office = await self._office()
        asked = await self._of(office).letters.filter(_narrowed(filter, older_than), queue, tenant)
        return await office.index.count(asked)

    async def groups(
        self,
        filter: str = "",  # noqa: A002
        *,
        by: str = "fingerprint",
        queue: str | None = None,
        tenant: str | None = None,
        older_than: Span | None = None,
        limit: int = 100,
    ) -> list[Group]:
        """The causes, the largest first: how many letters, of how many tenants, since when."""
        from redrive.office.groups import GroupBy

        text = _narrowed(filter, older_than)
        found = await (await self._acting()).groups.find(
            GroupBy(by), text, queue=queue, tenant=tenant, limit=limit
        )
        return found.found

    async def preview(
        self,
        filter: str = "",  # noqa: A002
        *,
        ids: Sequence[str] = (),
        queue: str | None = None,
        tenant: str | None = None,
        older_than: Span | None = None,
        limit: int | None = None,
        all: bool = False,  # noqa: A002
    ) -> Preview:
        """What a re-drive of these letters would take; changes nothing."""
        from redrive.office.operations import OperationKind, Order

        office = await self._acting()
        chosen = await _selection(office, filter, ids, queue, tenant, older_than, limit, all)
        return await office.operations.preview(Order(OperationKind.REDRIVE, chosen))

    async def redrive(
        self,
        filter: str = "",  # noqa: A002
        *,
        ids: Sequence[str] = (),
        queue: str | None = None,
        tenant: str | None = None,
        older_than: Span | None = None,
        limit: int | None = None,
        all: bool = False,  # noqa: A002
        canary: int | None = None,
        rate: str | None = None,
        to: str | None = None,
        include_expired: bool = False,
    ) -> Operation:
        """Bring letters back to waiting, as an operation; `canary` go first, the rest when they are well."""
        from redrive.office.operations import OperationKind, Order

        office = await self._acting()
        chosen = await _selection(office, filter, ids, queue, tenant, older_than, limit, all)
        more: dict[str, Any] = {"rate": rate, "canary": canary, "to_queue": to}
        given = {name: value for name, value in more.items() if value is not None}
        return await office.operations.start(
            Order(OperationKind.REDRIVE, chosen, expired=include_expired, **given)
        )

    async def discard(
        self,
        filter: str = "",  # noqa: A002
        *,
        ids: Sequence[str] = (),
        queue: str | None = None,
        tenant: str | None = None,
        older_than: Span | None = None,
        limit: int | None = None,
        all: bool = False,  # noqa: A002
        rate: str | None = None,
    ) -> Operation:
        """Remove letters, as an operation, with a row in the audit."""
        from redrive.office.operations import OperationKind, Order

        office = await self._acting()
        chosen = await _selection(office, filter, ids, queue, tenant, older_than, limit, all)
        return await office.operations.start(Order(OperationKind.DISCARD, chosen, rate=rate, expired=True))

    async def wait(self, operation: Operation | str, *, outcomes: bool = False) -> Snapshot:
        """Carry an operation out until it ends, halts or is paused; with `outcomes`, until each letter's
        end is known."""
        name = operation if isinstance(operation, str) else operation.id
        return await (await self._acting()).operations.wait(name, outcomes=outcomes)

    async def _acting(self) -> ActingOffice:
        return self._of(await self._office())

    def _of(self, office: Office) -> ActingOffice:
        return office.acting(self._actor)


async def _selection(
    office: ActingOffice,
    text: str,
    ids: Sequence[str],
    queue: str | None,
    tenant: str | None,
    older_than: Span | None,
    limit: int | None,
    every: bool,
) -> Selection:
    """The letters that the arguments name, in exactly one way."""
    from redrive.office.operations import OperationError, Selection

    if isinstance(ids, str):
        raise OperationError("ids is a list of ids: write ids=[id]")
    narrowed = bool(text.strip()) or any(one is not None for one in (queue, tenant, older_than))
    if (bool(ids), narrowed, every).count(True) != 1:
        raise OperationError(
            "say which letters: ids, or a filter, queue, tenant and older_than, or all=True; one of them"
        )
    if ids:
        return Selection(ids=tuple(ids), limit=limit)
    asked = await office.letters.filter(_narrowed(text, older_than), queue, tenant)
    return Selection(filter=str(asked), limit=limit)


def _narrowed(text: str, older_than: Span | None) -> str:
    if older_than is None:
        return text
    try:
        seconds = round(as_span(older_than).total_seconds())
    except ValueError as error:
        raise ValueError(f"older_than {error}") from None
    return f"({text}) age:>{seconds}s" if text.strip() else f"age:>{seconds}s"
