"""Dead letters from Python: the verbs of `redrive dlq`, on the same office, with the same audit.

Letters are chosen by a filter, a queue, a tenant, an age or ids. What changes them never takes a forgotten
argument for "all". A re-drive or a discard is an operation: it is written down first, carried out by any
running worker, and by `wait` in this process.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, TypedDict, Unpack

from msgspec.structs import replace

from redrive.core.errors import ConfigurationError
from redrive.core.letters import DeadLetter
from redrive.core.values import as_span

if TYPE_CHECKING:
    from redrive.office.audit import Actor
    from redrive.office.groups import Group
    from redrive.office.office import ActingOffice, Office
    from redrive.office.operations import Operation, Order, Preview, Selection, Snapshot

_PAGE = 100

Span = timedelta | float


class Narrowing(TypedDict, total=False):
    """What narrows a filter; a number as `older_than` is seconds."""

    queue: str | None
    tenant: str | None
    older_than: Span | None


class LetterChoice(Narrowing, total=False):
    """Which letters, for what changes them: `ids`, or what narrows a filter, or `all`; the oldest `limit`.

    `as_of` is that of a preview: what died after it is not taken.
    """

    ids: Sequence[str]
    all: bool
    limit: int | None
    as_of: int | None


class DeadLetters:
    """The dead letters of an app; `queue`, `tenant` and `older_than` narrow what a filter means."""

    def __init__(self, office: Callable[[], Awaitable[Office]], actor: Actor) -> None:
        self._office = office
        self._actor = actor

    async def find(
        self,
        filter: str = "",  # noqa: A002 - the word that every face has for it
        *,
        limit: int | None = None,
        **narrow: Unpack[Narrowing],
    ) -> AsyncIterator[DeadLetter]:
        """The letters meant, oldest first, as they are found."""
        office, cursor, left = await self._acting(), None, limit
        asked = await _asked(office, filter, **narrow)
        while left is None or left > 0:
            size = _PAGE if left is None else min(_PAGE, left)
            page = await office.letters.find(asked, after=cursor, limit=size, whole=True)
            for letter in page.found:
                yield letter
            left = None if left is None else left - len(page.found)
            cursor = page.document.cursor
            if cursor is None:
                return

    async def count(self, filter: str = "", **narrow: Unpack[Narrowing]) -> int:  # noqa: A002
        """How many letters are meant."""
        office = await self._office()
        acting = office.acting(self._actor)
        return await office.index.count(acting.view.filter(await _asked(acting, filter, **narrow)))

    async def groups(
        self,
        filter: str = "",  # noqa: A002
        *,
        by: str = "fingerprint",
        limit: int = 100,
        **narrow: Unpack[Narrowing],
    ) -> list[Group]:
        """The causes, the largest first: how many letters, of how many tenants, since when."""
        from redrive.office.groups import GroupBy

        if by not in tuple(GroupBy):
            raise ConfigurationError(f"by is {by!r}: use one of {', '.join(GroupBy)}")
        office = await self._acting()
        asked = await _asked(office, filter, **narrow)
        return (await office.groups.find(GroupBy(by), asked, limit=limit)).found

    async def preview(
        self,
        filter: str = "",  # noqa: A002
        **choice: Unpack[LetterChoice],
    ) -> Preview:
        """What a re-drive of these letters would take; changes nothing."""
        from redrive.office.operations import OperationKind, Order

        office = await self._acting()
        chosen = await _selection(office, filter, **choice)
        return await office.operations.preview(Order(OperationKind.REDRIVE, chosen))

    async def redrive(
        self,
        filter: str = "",  # noqa: A002
        *,
        canary: int | None = None,
        rate: str | None = None,
        to: str | None = None,
        include_expired: bool = False,
        **choice: Unpack[LetterChoice],
    ) -> Operation:
        """Bring letters back to waiting, as an operation; `canary` go first, the rest when they are well."""
        from redrive.office.operations import OperationKind, Order

        wanted = Order(OperationKind.REDRIVE, rate=rate, canary=canary, to_queue=to, expired=include_expired)
        return await self._start(wanted, filter, choice)

    async def discard(
        self,
        filter: str = "",  # noqa: A002
        *,
        rate: str | None = None,
        **choice: Unpack[LetterChoice],
    ) -> Operation:
        """Remove letters, as an operation, with a row in the audit."""
        from redrive.office.operations import OperationKind, Order

        return await self._start(Order(OperationKind.DISCARD, rate=rate, expired=True), filter, choice)

    async def undiscard(
        self,
        filter: str = "",  # noqa: A002
        *,
        rate: str | None = None,
        **choice: Unpack[LetterChoice],
    ) -> Operation:
        """Make discarded letters dead letters again while they are kept, as an operation."""
        from redrive.office.operations import OperationKind, Order

        return await self._start(Order(OperationKind.UNDISCARD, rate=rate, expired=True), filter, choice)

    async def _start(self, wanted: Order, text: str, choice: LetterChoice) -> Operation:
        office = await self._acting()
        selection = await _selection(office, text, **choice)
        return await office.operations.start(replace(wanted, selection=selection))

    async def wait(self, operation: Operation | str, *, outcomes: bool = False) -> Snapshot:
        """Carry an operation out until it ends, halts or is paused; with `outcomes`, until each letter's
        end is known."""
        name = operation if isinstance(operation, str) else operation.id
        return await (await self._acting()).operations.wait(name, outcomes=outcomes)

    async def _acting(self) -> ActingOffice:
        return (await self._office()).acting(self._actor)


async def _asked(
    office: ActingOffice,
    text: str,
    *,
    queue: str | None = None,
    tenant: str | None = None,
    older_than: Span | None = None,
) -> str:
    """The filter of these arguments together."""
    return str(await office.letters.filter(_aged(text, older_than), queue, tenant))


async def _selection(
    office: ActingOffice,
    text: str,
    *,
    ids: Sequence[str] = (),
    all: bool = False,  # noqa: A002
    limit: int | None = None,
    as_of: int | None = None,
    **narrow: Unpack[Narrowing],
) -> Selection:
    """The letters that the arguments name, in exactly one way."""
    from redrive.office.operations import OperationError, Selection

    if isinstance(ids, str):
        raise OperationError("ids is a list of ids: write ids=[id]")
    narrowed = bool(text.strip()) or any(one is not None for one in narrow.values())
    if (bool(ids), narrowed, all).count(True) != 1:
        raise OperationError(
            "say which letters: ids, or a filter, queue, tenant and older_than, or all=True; one of them"
        )
    if ids:
        return Selection(ids=tuple(ids), limit=limit, as_of=as_of)
    return Selection(filter=await _asked(office, text, **narrow), limit=limit, as_of=as_of)


def _aged(text: str, older_than: Span | None) -> str:
    if older_than is None:
        return text
    try:
        seconds = round(as_span(older_than).total_seconds())
    except ValueError as error:
        raise ValueError(f"older_than {error}") from None
    return f"({text}) age:>{seconds}s" if text.strip() else f"age:>{seconds}s"
