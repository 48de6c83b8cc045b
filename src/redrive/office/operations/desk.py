"""Where people ask for operations: preview, start, list, show, pause, resume, cancel, wait.

Everything that changes something stands in the audit. Starting only writes the order down; a conductor, here
or in another process, carries it out. `wait` conducts meanwhile, so it works when nobody else does.
"""

from __future__ import annotations

import asyncio
import builtins
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from socket import gethostname
from typing import Any

from msgspec.structs import replace

from redrive.core.ports import Store
from redrive.core.settings import OfficeSettings
from redrive.office.audit import Actor, action, add_intent
from redrive.office.filters import parse
from redrive.office.index import Index
from redrive.office.masking import Mask
from redrive.office.operations import ledger
from redrive.office.operations.conductor import Conductor
from redrive.office.operations.editing import difference
from redrive.office.operations.filing import check_file
from redrive.office.operations.finding import Chooser, Policy
from redrive.office.operations.listing import latest, new_id
from redrive.office.operations.operation import (
    NoOperation,
    Operation,
    OperationError,
    OperationState,
    Order,
)
from redrive.office.operations.progress import Snapshot, snapshot
from redrive.office.operations.steps import go_on

_SAMPLES = 5
_LOOKED = 2_000
_LONGEST_PAUSE_S = 0.5

Changes = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Preview:
    """What an order would do. `split` counts by queue, tenant and reason, the most first, then by name."""

    count: int
    expired: int
    gone: int
    missing: int
    split: tuple[tuple[tuple[str, str, str], int], ...]
    samples: tuple[str, ...]
    budget: int

    @property
    def over_budget(self) -> bool:
        return self.count > self.budget


class Operations:
    """The verbs on operations, for one actor; with a scope, on those of one tenant alone (I13).

    `files` lets the actor name files of this machine: for people on it, never for callers from outside.
    """

    def __init__(
        self,
        store: Store,
        actor: Actor,
        index: Index,
        policy: Policy,
        settings: OfficeSettings,
        *,
        scope: str | None = None,
        files: bool = False,
    ) -> None:
        self._store = store
        self._actor = actor
        self._settings = settings
        self._mask = Mask.parse(settings.masked)
        self._scope = scope
        self._files = files
        self._chooser = Chooser(store, index, policy)
        self.conductor = Conductor(store, self._chooser, settings)

    async def preview(self, order: Order) -> Preview:
        """Count what an order would take; changes nothing."""
        order = self._bounded(order)
        split: Counter[tuple[str, str, str]] = Counter()
        samples: list[str] = []
        expired = gone = missing = 0
        async for page in self._chooser.pages(order.selection, self._store.now(), expired=order.expired):
            split.update((one.queue, one.tenant, one.reason) for one in page.taken)
            samples += [one.id for one in page.taken[: _SAMPLES - len(samples)]]
            expired, gone, missing = expired + page.expired, gone + page.gone, missing + page.missing
        return Preview(
            split.total(),
            expired,
            gone,
            missing,
            tuple(sorted(split.items(), key=lambda each: (-each[1], each[0]))),
            tuple(samples),
            self._settings.budget,
        )

    async def start(
        self, order: Order, *, body: bytes | None = None, operation_id: str | None = None
    ) -> Operation:
        """Write an order down; from now on it is carried out, whatever crashes. `body` is an edited one.

        `operation_id` is one of `listing.new_id`: given again, it starts nothing that was started.
        """
        order = self._checked(self._bounded(order), body)
        now = self._store.now()
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
            await ledger.write_body(self._store, operation_id, body)
        await ledger.create(self._store, operation)
        return operation

    async def list(self, *, limit: int = 100) -> list[Operation]:
        """Operations, the newest first."""
        return (await self.page(limit=limit))[0]

    async def page(
        self, *, limit: int, before: str | None = None
    ) -> tuple[builtins.list[Operation], str | None]:
        """Operations, the newest first, and the id to go on before; None at the end.

        A page may be short and not the last: it looks at so many that are not the actor's, and no more.
        """
        found: builtins.list[Operation] = []
        looked = 0
        async for one in latest(self._store, before):
            if len(found) == limit or looked == _LOOKED:
                return found, before
            looked, before = looked + 1, one.id
            found += [one] if self._sees(one) else []
        return found, None

    async def show(self, operation_id: str) -> Snapshot:
        """An operation with its numbers; NoOperation when there is none."""
        operation = await self._load(operation_id)
        unattended = await self.conductor.unattended(operation)
        tally = await self.conductor.tally(operation)
        return snapshot(operation, tally, self._store.now(), unattended=unattended)

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
            return go_on(current, tally)

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
            operation = await ledger.change(self._store, operation_id, make)
            current.result["state"] = operation.state.value
            current.result["handled"] = operation.position
        return operation

    async def _load(self, operation_id: str) -> Operation:
        operation = await ledger.load(self._store, operation_id)
        if not self._sees(operation):
            raise NoOperation(operation_id)
        return operation

    def _sees(self, operation: Operation) -> bool:
        return self._scope is None or operation.order.selection.scope == self._scope

    def _bounded(self, order: Order) -> Order:
        if self._scope is None:
            return order
        return replace(order, selection=replace(order.selection, scope=self._scope))

    def _checked(self, order: Order, body: bytes | None) -> Order:
        text = str(parse(order.selection.filter, self._store.now()))
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

    async def _changes(self, order: Order, body: bytes) -> Changes:
        (name,) = order.selection.ids
        account = await self._store.get(name)
        hidden = account is not None and order.selection.scope not in (None, account.message.tenant)
        return [] if account is None or hidden else difference(account.message.body, body, self._mask)

    def _by(self, verb: str) -> str:
        return f"{verb} by {self._actor.name}"


def _demand(operation: Operation, allowed: bool, verb: str) -> None:
    if not allowed:
        raise OperationError(f"operation {operation.id} is {operation.state}: it cannot be {verb}")
