"""Carries operations on, step by step, in any process: the lease says which one does it now.

A crash anywhere is resumed by whoever takes the lease next. The CLI conducts what it started itself, so it
works with no server up; a server conducts whatever lives. An operation that cannot go on fails with a reason
and does not stand in the way of the others; a store that does not answer is the caller's to try again.
"""

from __future__ import annotations

from collections.abc import Callable
from socket import gethostname
from typing import TYPE_CHECKING

from redrive.core.errors import RedriveError, StoreError, StoreUnavailable
from redrive.core.failure import clip
from redrive.core.letters import OperationTally
from redrive.core.redaction import redact
from redrive.office.leases import DutyLease, holder_name
from redrive.office.operations import records
from redrive.office.operations.operation import NoOperation, Operation, OperationState
from redrive.office.operations.steps import OperationStep, Steps
from redrive.telemetry.events import Event, OperationEnded, OperationHalted

if TYPE_CHECKING:
    from redrive.office.office import Office

CONDUCTOR_RECORDS = "conductor"
LEASE_S = 10.0
IDLE_S = 1.0
_REASON_LENGTH = 300
_ORPHAN_MS = 60_000

Emit = Callable[[Event], None]


class Conductor:
    """Conducts the operations of a store, for one process."""

    def __init__(self, office: Office, emit: Emit = lambda _: None) -> None:
        self._store = office.store
        self._emit = emit
        self._steps = Steps(office)
        self._holder = holder_name()
        self._leases: dict[str, DutyLease] = {}

    async def conduct(self) -> float:
        """One step for each operation that lives; in how many seconds the next ones are due.

        What is wrong with one alone is raised at the end, after the others had their step.
        """
        pause_s, problem = IDLE_S, None
        for operation_id in await records.live(self._store):
            try:
                pause_s = min(pause_s, await self.advance(operation_id))
            except StoreUnavailable:
                raise
            except (records.UnreadableOperation, StoreError) as error:
                problem = error
        if problem is not None:
            raise problem
        return pause_s

    async def advance(self, operation_id: str) -> float:
        """One step of an operation, when it is ours to conduct; in how many seconds another is worth it."""
        try:
            operation = await records.load(self._store, operation_id)
        except NoOperation:
            return await self._drop_orphan(operation_id)
        if operation.told:
            await records.retire(self._store, operation_id)
        if not self._is_ours(operation):
            await self._release(operation_id)
            return IDLE_S
        if not await self._lease(operation_id).hold():
            return IDLE_S
        step = await self._step(operation)
        if step.operation.state is not operation.state:
            self._tell(step.operation)
        if step.operation.told:
            await self._release(operation_id)
        return step.pause_s

    async def tally(self, operation: Operation) -> OperationTally:
        """What came of an operation's letters so far."""
        return await self._steps.tally(operation)

    async def unattended(self, operation: Operation) -> bool:
        """Whether it runs and no process holds its lease; one that died holds it for some seconds more.

        One that people just started or resumed has as long to find its process.
        """
        if not operation.state.runs or self._store.now() < _expected_at(operation):
            return False
        return await self._store.get_record(CONDUCTOR_RECORDS, operation.id) is None

    async def release(self) -> None:
        """Let others conduct what we do."""
        for operation_id in list(self._leases):
            await self._release(operation_id)

    def _is_ours(self, operation: Operation) -> bool:
        """Whether there is something to do for it, and this machine can do it."""
        has_work = operation.state.runs or (operation.state.ended and not operation.told)
        return has_work and operation.host in ("", gethostname())

    async def _step(self, operation: Operation) -> OperationStep:
        try:
            return await self._steps.next(operation)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - it must not stand in the way of the other operations
            why = clip(redact(str(error)), _REASON_LENGTH)
            if not isinstance(error, RedriveError):
                why = f"{type(error).__name__}: {why}"
            return await self._steps.end(operation, OperationState.FAILED, why)

    def _tell(self, operation: Operation) -> None:
        named = (operation.id, operation.order.kind.value, operation.state.value)
        if operation.state in (OperationState.HALTED, OperationState.FAILED):
            self._emit(OperationHalted(*named, operation.why))
        elif operation.state.ended:
            self._emit(OperationEnded(*named, operation.position, operation.frozen.total))

    def _lease(self, operation_id: str) -> DutyLease:
        if operation_id not in self._leases:
            self._leases[operation_id] = DutyLease(
                self._store, CONDUCTOR_RECORDS, operation_id, self._holder, LEASE_S
            )
        return self._leases[operation_id]

    async def _release(self, operation_id: str) -> None:
        lease = self._leases.pop(operation_id, None)
        if lease is not None:
            await lease.release()

    async def _drop_orphan(self, operation_id: str) -> float:
        """A process died between the two writes that start an operation: nothing was begun."""
        record = await self._store.get_record(records.LIVE_RECORDS, operation_id)
        if record is not None and self._store.now() - int(record.document["at"]) > _ORPHAN_MS:
            await records.retire(self._store, operation_id)
        return IDLE_S


def _expected_at(operation: Operation) -> int:
    """From when on some process should have taken it up."""
    asked_at = operation.resumed_at or 0
    if operation.state is OperationState.FREEZING and operation.frozen.chunks == 0:
        asked_at = max(asked_at, operation.created_at)
    return asked_at + round(1000 * LEASE_S)
