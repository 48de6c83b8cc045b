"""Where people ask for operations: preview, start, list, show, pause, resume, cancel, wait.

Everything that changes something stands in the audit. Starting only writes the order down; a conductor, here
or in another process, carries it out. `wait` conducts meanwhile, so it works when nobody else does.
"""

from __future__ import annotations

import asyncio
import builtins
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from socket import gethostname
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from redrive.core.redaction import MASKED, redact
from redrive.office.audit import Actor, action, add_intent
from redrive.office.documents.operations import OperationDocument, OperationPage, operation_document
from redrive.office.emptiness import Emptiness, explain_empty
from redrive.office.filters import Filter, FilterError, parse
from redrive.office.filters.masked import MaskedValue
from redrive.office.operations import records
from redrive.office.operations.bodies import check_bodies
from redrive.office.operations.choice import AskedAt, Chooser
from redrive.office.operations.conductor import Conductor
from redrive.office.operations.difference import difference
from redrive.office.operations.files import check_file
from redrive.office.operations.listing import latest, new_id
from redrive.office.operations.operation import (
    MaskedBody,
    NoOperation,
    Operation,
    OperationError,
    OperationKind,
    OperationState,
    Order,
)
from redrive.office.operations.preview import Preview
from redrive.office.operations.progress import Snapshot, snapshot
from redrive.office.operations.steps import go_on
from redrive.office.view import OfficeAnswer, View

if TYPE_CHECKING:
    from redrive.office.office import Office

_SAMPLES = 5
_LOOKED = 2_000
_LONGEST_PAUSE_S = 0.5

Changes = list[dict[str, Any]]


class Operations:
    """The verbs on operations; for who is bound to a tenant, on those of that tenant alone."""

    def __init__(self, office: Office, actor: Actor, view: View, *, files: bool) -> None:
        self._store = office.store
        self._index = office.index
        self._settings = office.settings
        self._mask = office.mask
        self._actor = actor
        self._view = view
        self._scope = view.scope
        self._files = files
        self._bodies = office.bodies
        self._chooser = Chooser(office)
        self.conductor = Conductor(office)

    async def preview(self, order: Order) -> Preview:
        """Count what an order would take; changes nothing. WrongBody when one may not go where it is sent."""
        order, asked = self._bounded(order), self._view.filter(order.selection.filter)
        split: Counter[tuple[str, str, str]] = Counter()
        causes: Counter[tuple[str, str]] = Counter()
        samples: list[str] = []
        expired = gone = missing = 0
        now = self._store.now()
        as_of = AskedAt.of(order.selection, now).at
        async for page in self._chooser.pages(order, now):
            if not order.edited:
                await check_bodies(self._store, self._bodies, order, page.taken)
            split.update((one.queue, one.tenant, one.reason) for one in page.taken)
            causes.update((one.code, one.reason) for one in page.taken)
            samples += [one.id for one in page.taken[: _SAMPLES - len(samples)]]
            expired, gone, missing = expired + page.expired, gone + page.gone, missing + page.missing
            as_of = max(as_of, page.latest)
        return Preview(
            order.settled(split.total()),
            split.total(),
            expired,
            gone,
            missing,
            tuple(sorted(split.items(), key=lambda each: (-each[1], each[0]))),
            tuple(sorted(causes.items(), key=lambda each: (-each[1], each[0]))),
            tuple(samples),
            self._settings.budget,
            as_of,
            await self._empty(order, asked, split.total() + expired),
        )

    async def _empty(self, order: Order, asked: Filter, found: int) -> Emptiness | None:
        if order.kind is OperationKind.UNDISCARD:
            return None
        return await explain_empty(self._index, asked, found, scope=self._scope)

    async def start(
        self, order: Order, *, body: bytes | None = None, operation_id: str | None = None
    ) -> Operation:
        """Write an order down; from now on it is carried out, whatever crashes. `body` is an edited one.

        `operation_id` is one of `listing.new_id`: given again, it starts nothing that was started; that of
        another tenant's operation is NoOperation.
        """
        if operation_id is not None and (known := await self._started(operation_id)) is not None:
            return known
        order = self._checked(self._bounded(order), body)
        now = self._store.now()
        await self._check_bodies(order, body, now)
        operation_id = operation_id or new_id(now)
        subject: dict[str, Any] = {"operation": operation_id, "order": order.asked()}
        if body is not None:
            subject["changes"] = await self._changes(order, body)
        intent = await add_intent(self._store, operation_id, self._actor, order.kind.value, subject)
        operation = Operation(
            operation_id,
            order,
            self._actor.name,
            self._actor.origin,
            now,
            intent.position,
            host=gethostname() if order.uses_file else "",
        )
        if body is not None:
            await records.write_body(self._store, operation_id, body)
        await records.create(self._store, operation)
        return operation

    async def list(
        self, *, limit: int = 100, before: str | None = None, running: bool = False
    ) -> OfficeAnswer[builtins.list[Snapshot], OperationPage]:
        """Operations, the newest first, or of those the ones that have not ended; `before` goes on from one.

        A page may be short and not the last: it looks at so many that are not wanted, and no more.
        """
        found: builtins.list[Operation] = []
        looked, cursor = 0, None
        async for one in latest(self._store, before):
            if len(found) == limit or looked == _LOOKED:
                cursor = before
                break
            looked, before = looked + 1, one.id
            found += [one] if self._sees(one) and not (running and one.state.ended) else []
        seen = [await self.show(one.id) for one in found]
        return OfficeAnswer(
            seen, OperationPage(operations=[self.document(one) for one in seen], cursor=cursor)
        )

    async def running(self, limit: int) -> builtins.list[Snapshot]:
        """The newest operations that have not ended, cheaply however many have."""
        found: builtins.list[Snapshot] = []
        for operation_id in sorted(await records.live(self._store), reverse=True):
            with suppress(NoOperation, records.UnreadableOperation):
                seen = await self.show(operation_id)
                found += [] if seen.operation.state.ended else [seen]
            if len(found) == limit:
                break
        return found

    async def show(self, operation_id: str) -> Snapshot:
        """An operation with its numbers; NoOperation when there is none."""
        operation = await self._load(operation_id)
        unattended = await self.conductor.unattended(operation)
        tally = await self.conductor.tally(operation)
        return snapshot(operation, tally, self._store.now(), unattended=unattended)

    def document(self, seen: Snapshot) -> OperationDocument:
        """An operation as it goes out; a filter that the actor may not ask is not shown either."""
        document = operation_document(seen)
        try:
            asked = self._view.filter(document.filter)
        except (MaskedValue, FilterError):
            return replace(document, filter=MASKED)
        return replace(document, filter=redact(document.filter)) if asked.masked else document

    async def pause(self, operation_id: str) -> Operation:
        """Move nothing more until it is resumed."""

        def make(current: Operation) -> Operation:
            _demand(current, current.state.runs, "paused")
            return replace(current, state=OperationState.PAUSED, was=current.state, why=self._by("paused"))

        return await self._set(operation_id, "pause operation", make)

    async def resume(self, operation_id: str) -> Operation:
        """Go on after a pause or a halt; after a halt with a new canary, and without the old failures."""
        tally = await self.conductor.tally(await self._load(operation_id))

        def make(current: Operation) -> Operation:
            stands = current.state in (OperationState.PAUSED, OperationState.HALTED)
            _demand(current, stands, "resumed")
            return replace(go_on(current, tally), resumed_at=self._store.now())

        return await self._set(operation_id, "resume operation", make)

    async def cancel(self, operation_id: str) -> Operation:
        """End it where it is: what was moved stays moved, the rest stays where it was."""

        def make(current: Operation) -> Operation:
            _demand(current, not current.state.ended, "cancelled")
            return replace(
                current,
                state=OperationState.CANCELLED,
                why=self._by("cancelled"),
                ended_at=self._store.now(),
            )

        cancelled = await self._set(operation_id, "cancel operation", make)
        async with self._conducting():
            await self.conductor.advance(operation_id)
        return cancelled

    async def wait(
        self,
        operation_id: str,
        *,
        outcomes: bool = False,
        progress: Callable[[Snapshot], None] = lambda _: None,
    ) -> Snapshot:
        """Conduct until it ends, halts or is paused; with `outcomes`, until each letter's end is known."""
        await self._load(operation_id)
        async with self._conducting():
            while True:
                pause_s = await self.conductor.advance(operation_id)
                seen = await self.show(operation_id)
                progress(seen)
                operation = seen.operation
                ended = operation.told and (seen.settled or not outcomes)
                if ended or not (operation.state.runs or operation.state.ended):
                    return seen
                await asyncio.sleep(min(pause_s, _LONGEST_PAUSE_S))

    @asynccontextmanager
    async def _conducting(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await self.conductor.release()

    async def _set(self, operation_id: str, verb: str, make: Callable[[Operation], Operation]) -> Operation:
        await self._load(operation_id)
        async with action(self._store, self._actor, verb, {"operation": operation_id}) as current:
            operation = await records.change(self._store, operation_id, make)
            current.result["state"] = operation.state.value
            current.result["handled"] = operation.position
        return operation

    async def _started(self, operation_id: str) -> Operation | None:
        try:
            operation = await records.load(self._store, operation_id)
        except NoOperation:
            return None
        return self._seen(operation)

    async def _load(self, operation_id: str) -> Operation:
        return self._seen(await records.load(self._store, operation_id))

    def _seen(self, operation: Operation) -> Operation:
        if not self._sees(operation):
            raise NoOperation(operation.id)
        return operation

    def _sees(self, operation: Operation) -> bool:
        return self._scope is None or operation.order.selection.scope == self._scope

    def _bounded(self, order: Order) -> Order:
        self._view.filter(order.selection.filter)
        if self._scope is None:
            return order
        return replace(order, selection=replace(order.selection, scope=self._scope))

    def _checked(self, order: Order, body: bytes | None) -> Order:
        now = self._store.now()
        text = str(parse(order.selection.filter, AskedAt.of(order.selection, now).at))
        order = replace(order, selection=replace(order.selection, filter=text))
        check_file(order)
        if order.uses_file and not self._files:
            raise OperationError(f"{order.kind} names a file: use the command line on its machine")
        if (body is not None) != order.edited:
            raise OperationError("an edited re-drive comes with its new body, and only that one")
        if order.edited and not self._settings.edit:
            raise OperationError("editing letters is off: set office.edit to true to allow it")
        if order.edited and len(order.selection.ids) != 1:
            raise OperationError("one letter is edited at a time: give its id")
        return order

    async def _check_bodies(self, order: Order, body: bytes | None, now: int) -> None:
        """WrongBody before anything is written; letters beyond the budget end the operation anyway."""
        if not self._bodies or not order.replaces or not (order.edited or order.to_queue in self._bodies):
            return
        seen = 0
        async for page in self._chooser.pages(order, now):
            await check_bodies(self._store, self._bodies, order, page.taken, body)
            seen += len(page.taken)
            if seen > self._settings.budget:
                return

    async def _changes(self, order: Order, body: bytes) -> Changes:
        """What changes in an edited letter. Where a mask would overwrite what it hides, MaskedBody."""
        (name,) = order.selection.ids
        account = await self._store.get(name)
        if account is None or not self._view.sees(account.message.tenant):
            return []
        before, masked = account.message.body, MASKED.encode()
        if masked in body and masked not in before:
            raise MaskedBody
        return difference(before, body, self._mask)

    def _by(self, verb: str) -> str:
        return f"{verb} by {self._actor.name}"


def _demand(operation: Operation, allowed: bool, verb: str) -> None:
    if not allowed:
        raise OperationError(f"operation {operation.id} is {operation.state}: it cannot be {verb}")
