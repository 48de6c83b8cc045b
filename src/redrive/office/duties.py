"""What any running process does for the office beside its own work: duties, each a step and when it is due.

One runner runs them all (app.py); there is no loop here. Operations are conducted by every process, lease by
lease; the other duties are done by the one process that holds their lease.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType

from redrive.office.alerts.watch import AlertWatch
from redrive.office.automatic import Automatic, CoolDowns
from redrive.office.deaths import Deaths
from redrive.office.leases import DutyLease, holder_name
from redrive.office.office import Office
from redrive.office.operations import records
from redrive.office.operations.conductor import Conductor
from redrive.office.retention.duty import Retention
from redrive.telemetry.events import Event

Duty = Callable[[], Awaitable[float]]

DUTY_RECORDS = "duty"
_LEASE_S = 120.0
_OTHERS_S = 30.0
_FORGET_S = 3_600.0
_KEEP_MS = 30 * 86_400_000


class Duties:
    """The duties of one process on one store; `cool_downs` are those of queues with one of their own."""

    def __init__(
        self,
        office: Office,
        emit: Callable[[Event], None] = lambda _: None,
        cool_downs: Mapping[str, float | None] = MappingProxyType({}),
        deaths: Sequence[Deaths] = (),
    ) -> None:
        self._store = office.store
        self._holder = holder_name()
        self._leases: list[DutyLease] = []
        self._conductor = Conductor(office, emit)
        alone: dict[str, Duty] = {
            "retention": Retention(office.store, office.retention, emit).step,
            "forget": self._forget,
        }
        alone |= {f"deaths of {one.queue}": one.step for one in deaths}
        automatic = CoolDowns(office.settings.automatic_s, cool_downs)
        if automatic.shortest_s is not None:
            alone["automatic"] = Automatic(office, automatic).step
        if office.alerting.settings.live_rules:
            alone["alerts"] = AlertWatch(office, emit).step
        self._steps = {name: self._alone(name, step) for name, step in alone.items()}

    def steps(self) -> Mapping[str, Duty]:
        """Each duty by name."""
        return {"operations": self._conductor.conduct, **self._steps}

    async def close(self) -> None:
        """Let other processes take over at once."""
        await self._conductor.release()
        for lease in self._leases:
            await lease.release()

    def _alone(self, name: str, step: Duty) -> Duty:
        lease = DutyLease(self._store, DUTY_RECORDS, name, self._holder, _LEASE_S)
        self._leases.append(lease)

        async def held() -> float:
            return await step() if await lease.hold() else _OTHERS_S

        return held

    async def _forget(self) -> float:
        """Operations that ended a month ago go, with their lists; the audit keeps what they did."""
        before_at = self._store.now() - _KEEP_MS
        async for operation in records.every(self._store):
            if operation.told and operation.ended_at is not None and operation.ended_at < before_at:
                await records.forget(self._store, operation)
        return _FORGET_S
