"""The steps of an operation, each small and safe to repeat: freeze a page, move a slice, tell the end.

A step reads the operation, does one thing to the store, and writes how far it came, compare-and-set. A crash
between the two repeats the step: chunks and rows of the audit are written once, letters are moved by their
generation. What people changed meanwhile (pause, cancel) stays as they changed it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from redrive.core.letters import OperationTally
from redrive.office.audit import add_later
from redrive.office.operations import records
from redrive.office.operations.choice import Chooser
from redrive.office.operations.files import Filing
from redrive.office.operations.move import messages_of, move, tally_replaced
from redrive.office.operations.operation import Baseline, Frozen, Operation, OperationKind, OperationState
from redrive.office.operations.records import Chunk, Letter
from redrive.office.operations.rules import Go, Halt, Wait, judge, pace

if TYPE_CHECKING:
    from redrive.office.office import Office

_OUTCOME_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class OperationStep:
    """The operation after a step, and in how many seconds another one is worth it."""

    operation: Operation
    pause_s: float = 0.0


class Steps:
    """What may be done next for an operation, on one store."""

    def __init__(self, office: Office) -> None:
        self._store = office.store
        self._bodies = office.bodies
        self._traces = office.traces
        self._chooser = Chooser(office)
        self._budget = office.settings.budget
        self._filing = Filing(office)
        self._chunk: tuple[str, int, Sequence[Letter]] = ("", 0, ())

    async def next(self, operation: Operation) -> OperationStep:
        """Do the next step."""
        if operation.state is OperationState.FREEZING:
            return await self.freeze(operation)
        if operation.state.runs:
            return await self.move(operation)
        if operation.state.ended and not operation.told:
            return await self.tell(operation)
        return OperationStep(operation, 1.0)

    async def freeze(self, operation: Operation) -> OperationStep:
        """Keep another page of the letters that were dead when the operation was asked for."""
        order, frozen = operation.order, operation.frozen
        if order.kind is OperationKind.RESTORE:
            return await self._frozen(operation, await self._filing.check(operation))
        page = await self._chooser.page(order, operation.created_at, frozen.cursor, frozen.total)
        chunk = page.chunk
        if chunk.letters:
            chunk = await records.keep_chunk(self._store, operation.id, frozen.chunks, chunk)
        grown = _grow(frozen, chunk)
        if grown.total > self._budget:
            why = f"more than its budget of {self._budget:,} letters; nothing was moved: narrow the filter"
            return await self.end(operation, OperationState.FAILED, why)
        if chunk.cursor is None:
            return await self._frozen(operation, grown)
        return OperationStep(await self._change(operation, frozen=grown))

    async def move(self, operation: Operation) -> OperationStep:
        """Move the next slice, as large as gate and rate let it be; or wait, halt, finish."""
        if operation.left == 0:
            await self._filing.close(operation, whole=True)
            return await self.end(operation, OperationState.FINISHED, "")
        if operation.order.kind is OperationKind.RESTORE:
            changes = await self._filing.restore(operation)
            moving_at = operation.moving_at or self._store.now()
            return OperationStep(await self._change(operation, **changes, moving_at=moving_at))
        if operation.order.kind is OperationKind.ARCHIVE:
            return await self._archive(operation)
        ruling = judge(operation, await self.tally(operation))
        if isinstance(ruling, Halt):
            return OperationStep(
                await self._change(operation, state=OperationState.HALTED, was=None, why=ruling.why)
            )
        if isinstance(ruling, Wait):
            return OperationStep(await self._change(operation, why=ruling.why), _OUTCOME_POLL_S)
        return await self._slice(operation, ruling)

    async def tell(self, operation: Operation) -> OperationStep:
        """Write the outcome to the audit, once, whoever ends the operation; then it is nobody's duty."""
        if operation.state is not OperationState.FINISHED:
            await self._filing.close(operation, whole=False)
        tally = await self.tally(operation)
        outcome = {
            "row": "outcome",
            "ok": operation.state is not OperationState.FAILED,
            "result": {
                "operation": operation.id,
                "state": operation.state.value,
                "why": operation.why,
                "hash": operation.frozen.hash,
                "letters": operation.frozen.total,
                "handled": operation.position,
                "skipped": max(0, operation.position - tally.moved),
                **asdict(tally),
            },
        }
        row = await self._write(operation, outcome)
        told = await self._change(operation, told=True, row=row)
        await records.retire(self._store, operation.id)
        return OperationStep(told, 1.0)

    async def end(self, operation: Operation, state: OperationState, why: str) -> OperationStep:
        """The operation ends here; its outcome is told by the next step."""
        return OperationStep(await self._change(operation, state=state, why=why, ended_at=self._store.now()))

    async def tally(self, operation: Operation) -> OperationTally:
        """What came of the letters so far; of new messages, those of the first chunk."""
        if operation.order.counts_itself:
            return OperationTally(moved=operation.counted)
        if not operation.order.replaces or operation.position == 0:
            return await self._store.tally(operation.id)
        first = await self._letters(operation.id, 0)
        return await tally_replaced(self._store, operation, first[: operation.position])

    async def _archive(self, operation: Operation) -> OperationStep:
        """Move whole chunks of the list into archives, until those are large enough."""
        position, chunk = operation.position, operation.chunk
        now = self._store.now()
        async with self._filing.archiving(operation) as archives:
            while not archives.full and (letters := await self._letters(operation.id, chunk)):
                await archives.add(letters)
                position, chunk = position + len(letters), chunk + 1
        if chunk == operation.chunk:
            return await self.end(operation, OperationState.FAILED, _gone(operation))
        return OperationStep(
            await self._change(
                operation,
                position=position,
                chunk=chunk,
                files=(*operation.files, *archives.files),
                moving_at=operation.moving_at or now,
            )
        )

    async def _slice(self, operation: Operation, ruling: Go) -> OperationStep:
        now = self._store.now()
        letters = await self._letters(operation.id, operation.chunk)
        rest = letters[operation.offset :]
        if not rest:
            return await self.end(operation, OperationState.FAILED, _gone(operation))
        wanted = len(rest) if ruling.room is None else min(len(rest), ruling.room)
        grant = pace(operation.order.pace, operation.next_at, now, wanted)
        if grant.count == 0:
            return OperationStep(operation, max(0.001, (grant.next_at - now) / 1000))
        changes = await self._act(operation, rest[: grant.count])
        ends_chunk = grant.count == len(rest)
        moved = await self._change(
            operation,
            **changes,
            state=OperationState.MOVING if ruling.gate is None else OperationState.CANARY,
            gate=ruling.gate,
            why="",
            position=operation.position + grant.count,
            chunk=operation.chunk + ends_chunk,
            offset=0 if ends_chunk else operation.offset + grant.count,
            next_at=grant.next_at,
            moving_at=operation.moving_at or now,
        )
        if grant.next_at <= now or moved.left == 0:
            return OperationStep(moved)
        return OperationStep(moved, (grant.next_at - now) / 1000)

    async def _frozen(self, operation: Operation, frozen: Frozen) -> OperationStep:
        order = operation.order.settled(frozen.total)
        result: dict[str, Any] = {"letters": frozen.total, "hash": frozen.hash}
        if order.kind is OperationKind.REDRIVE:
            result |= {"canary": order.canary, "rate": order.rate}
        row = await self._write(operation, {"row": "frozen", "result": result})
        canary = order.canary or 0
        gated = canary > 0 or order.ramp
        state = OperationState.CANARY if gated else OperationState.MOVING
        gate = max(1, canary) if gated else None
        return OperationStep(
            await self._change(
                operation, frozen=frozen, state=state, gate=gate, row=row, order=order.without_ids()
            )
        )

    async def _write(self, operation: Operation, content: dict[str, Any]) -> int:
        verb = operation.order.kind.value
        head = await add_later(self._store, operation.row, operation.id, operation.by, verb, content)
        return head.position

    async def _change(self, before: Operation, **changes: Any) -> Operation:
        """Write what a step did. What people did to the state meanwhile wins over what the step made it."""

        def make(current: Operation) -> Operation:
            if (current.position, current.frozen) != (before.position, before.frozen):
                return current
            if current.state is before.state:
                return replace(current, **changes)
            kept = {name: value for name, value in changes.items() if name not in _PEOPLES}
            further = changes.get("state", before.state)
            resumes = current.was is before.state and further.runs
            return replace(current, **kept, was=further if resumes else current.was)

        return await records.change(self._store, before.id, make)

    async def _letters(self, operation_id: str, number: int) -> Sequence[Letter]:
        if self._chunk[:2] != (operation_id, number):
            self._chunk = (operation_id, number, await records.read_chunk(self._store, operation_id, number))
        return self._chunk[2]

    async def _act(self, operation: Operation, letters: Sequence[Letter]) -> dict[str, Any]:
        """Do with letters what was asked for; what that changes in the operation besides its position."""
        if operation.order.kind is OperationKind.EXPORT:
            return await self._filing.export(operation, letters)
        edited = operation.order.edited
        body = await records.read_body(self._store, operation.id) if edited else None
        if self._traces is None or operation.order.kind is not OperationKind.REDRIVE:
            await move(self._store, self._bodies, operation, letters, body)
            return {}
        began_ns, traced = time.time_ns(), await messages_of(self._store, letters)
        await move(self._store, self._bodies, operation, letters, body)
        self._traces.redriven(traced, operation.id, began_ns)
        return {}


_PEOPLES = frozenset(("state", "why", "was", "ended_at"))


def _gone(operation: Operation) -> str:
    return f"chunk {operation.chunk} of its frozen list is gone; {operation.left:,} were not moved"


def _grow(frozen: Frozen, chunk: Chunk) -> Frozen:
    letters = chunk.letters
    return Frozen(
        total=frozen.total + len(letters),
        chunks=frozen.chunks + bool(letters),
        hash=records.chained_hash(frozen.hash, letters) if letters else frozen.hash,
        cursor=chunk.cursor,
        expired=frozen.expired + chunk.expired,
        gone=frozen.gone + chunk.gone,
        missing=frozen.missing + chunk.missing,
    )


def go_on(operation: Operation, tally: OperationTally) -> Operation:
    """The operation as it goes on after people looked: what halted it counts no more, a canary goes again."""
    if operation.state is OperationState.PAUSED:
        return replace(operation, state=operation.was or OperationState.MOVING, was=None, why="", next_at=0)
    gate = operation.order.canary or None
    state = OperationState.MOVING if gate is None else OperationState.CANARY
    return replace(operation, state=state, gate=gate, since=Baseline.of(tally), was=None, why="", next_at=0)
